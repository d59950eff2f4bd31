#include "qkv/kernels/cpu/kernels.h"

#include <algorithm>
#include <cmath>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/products/row_blocks.h"
#include "qkv/tensor/storage.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/norm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/dropout-inl.h"
#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

// z = x + dropout(residual) of one row, written unless null; returns the sum of its elements.
template <class Drop>
double residual_row(Floats d, Drop& drop, int64_t row, const float* x, const float* residual, float* z,
                    int64_t cols) {
  if (residual == nullptr) {
    return sum_of_row(d, cols, [&](auto part, int64_t i) HWY_ATTR {
      const auto v = load(d, x + i, part);
      if (z != nullptr) store(d, v, z + i, part);
      return v;
    });
  }
  double sum = 0;
  for (int64_t first = 0; first < cols; first += kDropoutColumns) {
    const int64_t count = std::min(kDropoutColumns, cols - first);
    drop.draw(row, first, count);
    sum += sum_of_row(d, count, [&](auto part, int64_t i) HWY_ATTR {
      const int64_t column = first + i;
      const auto v = hn::Add(load(d, x + column, part), drop.apply(d, load(d, residual + column, part), i));
      store(d, v, z + column, part);
      return v;
    });
  }
  return sum;
}

template <class Drop>
void norm_rows(const NormInput& input, const NormOutput& output, int64_t begin, int64_t end) {
  const Floats d;
  const float *const xs = input.x.f32(), *const residuals = input.residual.f32();
  float *const sums = output.sum.f32(), *const ys = output.y.f32();
  Drop drop(input.dropout);
  const int64_t cols = input.cols;
  const double count = static_cast<double>(cols);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t first = row * cols;
    const float* residual = residuals == nullptr ? nullptr : residuals + first;
    // If the sum is not wanted, it is kept in y until the norm overwrites it.
    float* sum_to = sums != nullptr ? sums + first : residual != nullptr ? ys + first : nullptr;
    const double sum = residual_row(d, drop, row, xs + first, residual, sum_to, cols);
    if (input.weight == nullptr) continue;

    const float* z = sum_to != nullptr ? sum_to : xs + first;
    const float mean = input.kind == NormKind::rms ? 0.0f : static_cast<float>(sum / count);
    const auto means = hn::Set(d, mean);
    const double squares = sum_of_row(d, cols, [&](auto part, int64_t i) HWY_ATTR {
      const auto v = hn::Sub(load(d, z + i, part), means);
      return hn::Mul(v, v);
    });
    const double variance = squares / count + static_cast<double>(input.epsilon);
    const float rstd = static_cast<float>(1 / std::sqrt(variance));
    const auto inverse = hn::Set(d, rstd);
    float* y = ys + first;
    if (input.kind == NormKind::rms) {
      for_vectors(d, cols, [&](auto part, int64_t i) HWY_ATTR {
        const auto v = hn::Mul(load(d, z + i, part), inverse);
        store(d, hn::Mul(v, load(d, input.weight + i, part)), y + i, part);
      });
    } else {
      for_vectors(d, cols, [&](auto part, int64_t i) HWY_ATTR {
        const auto v = hn::Mul(hn::Sub(load(d, z + i, part), means), inverse);
        store(d, hn::MulAdd(v, load(d, input.weight + i, part), load(d, input.bias + i, part)), y + i, part);
      });
    }
    if (output.mean != nullptr) output.mean[row] = mean;
    if (output.rstd != nullptr) output.rstd[row] = rstd;
  }
}

void norm_range(const NormInput& input, const NormOutput& output, int64_t begin, int64_t end) {
  input.dropout.active() && input.residual != nullptr ? norm_rows<DropSome>(input, output, begin, end)
                                                      : norm_rows<KeepAll>(input, output, begin, end);
}

// Rows [begin, end). The sums of their weight and bias gradients are written to d_weight and d_bias, unless
// null.
template <class Drop>
void norm_backward_rows(const NormBackward& a, int64_t begin, int64_t end, float* d_weight, float* d_bias) {
  const Floats d;
  const float *const zs = a.z.f32(), *const dys = a.dy.f32();
  float *const dzs = a.dz.f32(), *const residual_gradients = a.residual_gradient.f32();
  Drop drop(a.dropout);
  const double count = static_cast<double>(a.cols);
  if (d_weight != nullptr) std::fill(d_weight, d_weight + a.cols, 0.0f);
  if (d_bias != nullptr) std::fill(d_bias, d_bias + a.cols, 0.0f);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t first = row * a.cols;
    const float *z = zs + first, *dy = dys + first;
    const auto mean = hn::Set(d, a.mean[row]), inverse = hn::Set(d, a.rstd[row]);
    // With g = weight dy and n = (z - mean) / deviation: dz = (g - mean(g) - n mean(g n)) / deviation; rms
    // has no mean(g).
    const auto normal = [&](auto part, int64_t i)
                            HWY_ATTR { return hn::Mul(hn::Sub(load(d, z + i, part), mean), inverse); };
    const auto scaled = [&](auto part, int64_t i)
                            HWY_ATTR { return hn::Mul(load(d, dy + i, part), load(d, a.weight + i, part)); };
    const double sum = a.kind == NormKind::rms ? 0 : sum_of_row(d, a.cols, scaled);
    const double product_sum = sum_of_row(d, a.cols, [&](auto part, int64_t i) HWY_ATTR {
      const auto n = normal(part, i);
      const auto v = load(d, dy + i, part);
      if (d_weight != nullptr) store(d, hn::MulAdd(v, n, load(d, d_weight + i, part)), d_weight + i, part);
      if (d_bias != nullptr) store(d, hn::Add(v, load(d, d_bias + i, part)), d_bias + i, part);
      return hn::Mul(scaled(part, i), n);
    });
    const auto mean_g = hn::Set(d, static_cast<float>(sum / count));
    const auto mean_gn = hn::Set(d, static_cast<float>(product_sum / count));
    for_dropped_row(d, drop, row, a.cols, [&](auto part, int64_t column, int64_t i) HWY_ATTR {
      const auto inner = hn::NegMulAdd(normal(part, column), mean_gn, hn::Sub(scaled(part, column), mean_g));
      const auto dz = hn::Mul(inner, inverse);
      const auto put = [&](auto v, float* to, Accumulate accumulate) HWY_ATTR {
        if (accumulate == Accumulate::yes) v = hn::Add(v, load(d, to, part));
        store(d, v, to, part);
      };
      if (dzs != nullptr) put(dz, dzs + first + column, a.dz_accumulate);
      if (residual_gradients != nullptr) {
        put(drop.apply(d, dz, i), residual_gradients + first + column, a.residual_accumulate);
      }
    });
  }
}

void norm_backward_range(const NormBackward& a, int64_t begin, int64_t end, float* d_weight, float* d_bias) {
  if (a.dropout.active() && a.residual_gradient != nullptr) {
    norm_backward_rows<DropSome>(a, begin, end, d_weight, d_bias);
  } else {
    norm_backward_rows<KeepAll>(a, begin, end, d_weight, d_bias);
  }
}

template <class Drop>
void dropout_rows(const float* dy, float* dx, int64_t begin, int64_t end, int64_t cols,
                  const Dropout& dropout, Accumulate accumulate) {
  const Floats d;
  Drop drop(dropout);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t first = row * cols;
    for_dropped_row(d, drop, row, cols, [&](auto part, int64_t column, int64_t i) HWY_ATTR {
      const int64_t at = first + column;
      auto v = drop.apply(d, load(d, dy + at, part), i);
      if (accumulate == Accumulate::yes) v = hn::Add(v, load(d, dx + at, part));
      store(d, v, dx + at, part);
    });
  }
}

void dropout_range(const float* dy, float* dx, int64_t begin, int64_t end, int64_t cols,
                   const Dropout& dropout, Accumulate accumulate) {
  dropout_rows<DropSome>(dy, dx, begin, end, cols, dropout, accumulate);
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels::cpu {
namespace {

HWY_EXPORT(norm_range);
HWY_EXPORT(norm_backward_range);
HWY_EXPORT(dropout_range);

int64_t rows_of_piece(int64_t cols) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(cols, 1)); }

}  // namespace

void norm_forward(const NormInput& input, const NormOutput& output) {
  parallel_for(input.rows, rows_of_piece(input.cols), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(norm_range)(input, output, begin, end);
  });
}

void norm_backward(const NormBackward& arguments) {
  const int64_t rows = arguments.rows, cols = arguments.cols;
  float* const weight_gradient = arguments.weight_gradient;
  float* const bias_gradient = arguments.bias_gradient;
  if (weight_gradient == nullptr && bias_gradient == nullptr) {
    parallel_for(rows, rows_of_piece(cols), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(norm_backward_range)(arguments, begin, end, nullptr, nullptr);
    });
    return;
  }
  const int64_t block = rows_of_block(rows), blocks = count_row_blocks(rows);
  const MemoryScope memory(MemoryUse::scratch);
  const Storage storage = allocate(static_cast<size_t>(2 * blocks * cols) * sizeof(float));
  // [blocks, cols] each
  float* const d_weight = reinterpret_cast<float*>(storage.get());
  float* const d_bias = d_weight + blocks * cols;
  parallel_for(rows, block, [&](int64_t begin, int64_t end) {
    const int64_t at = begin / block * cols;
    HWY_DYNAMIC_DISPATCH(norm_backward_range)
    (arguments, begin, end, weight_gradient == nullptr ? nullptr : d_weight + at,
     bias_gradient == nullptr ? nullptr : d_bias + at);
  });
  if (weight_gradient != nullptr)
    column_sums(d_weight, blocks, cols, cols, weight_gradient, arguments.weight_accumulate);
  if (bias_gradient != nullptr)
    column_sums(d_bias, blocks, cols, cols, bias_gradient, arguments.bias_accumulate);
}

void dropout_backward(Elements dy, MutableElements dx, int64_t rows, int64_t cols, const Dropout& dropout,
                      Accumulate accumulate) {
  if (!dropout.active()) return copy(dy, dx, rows * cols, accumulate);
  const float* const from = dy.f32();
  float* const to = dx.f32();
  parallel_for(rows, rows_of_piece(cols), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(dropout_range)(from, to, begin, end, cols, dropout, accumulate);
  });
}

}  // namespace qkv::kernels::cpu
#endif
