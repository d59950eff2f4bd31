#include "qkv/kernels/reference/matmul.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "qkv/kernels/reference/weights.h"

namespace qkv::kernels::reference {
namespace {

// y_j = sum_i (q_i - zero_point) w_ji, times both scales.
void multiply_int8(const QuantizedRow& q, const WeightRows& w, double* y) {
  const auto* numbers = static_cast<const int8_t*>(w.data);
  for (int64_t j = 0; j < w.rows; ++j) {
    int64_t sum = 0;
    for (int64_t i = 0; i < w.cols; ++i) {
      sum += int64_t{q.steps[static_cast<size_t>(i)] - q.zero_point} * numbers[j * w.stride + i];
    }
    y[j] = static_cast<double>(sum) * double{q.scale} * double{w.scales[j]};
  }
}

// With weights in blocks: 8 bits for each of 32 numbers that share a scale.
std::vector<float> rounded_by_groups(const Matrix& x) {
  constexpr int64_t kGroup = 32;
  constexpr float kSmallest = 1e-30f;  // smaller numbers become zeros, because 1 / scale would overflow
  std::vector<float> rounded;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t first = 0; first < x.cols; first += kGroup) {
      const float* const group = x.data.f32() + r * x.stride + first;
      float largest = 0;
      bool finite = true;
      for (int64_t i = 0; i < kGroup; ++i) {
        finite = finite && std::isfinite(group[i]);
        largest = std::max(largest, std::abs(group[i]));
      }
      // In float, as on the CPU, for exactly the same numbers.
      const float inverse = largest > kSmallest ? 127 / largest : 0;
      for (int64_t i = 0; i < kGroup; ++i)
        rounded.push_back(finite ? std::nearbyint(group[i] * inverse) * (largest / 127)
                                 : std::numeric_limits<float>::quiet_NaN());
    }
  }
  return rounded;
}

Doubles product_with_numbers(const Matrix& x, const WeightRows& w) {
  Doubles y(static_cast<size_t>(x.rows * w.rows)), column(static_cast<size_t>(w.cols));
  for (int64_t j = 0; j < w.rows; ++j) {
    for (int64_t i = 0; i < w.cols; ++i) column[static_cast<size_t>(i)] = element(w, j, i);
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t i = 0; i < w.cols; ++i) {
        y[at(r, w.rows, j)] += get(x.data, r * x.stride + i) * column[static_cast<size_t>(i)];
      }
    }
  }
  return y;
}

// A contiguous copy in f32 whose values are rounded to the dtype.
struct Rounded {
  std::vector<float> values;
  Matrix matrix;

  Rounded(const Matrix& x, DType operands) {
    for (int64_t i = 0; i < x.rows * x.cols; ++i)
      values.push_back(static_cast<float>(get(x.data, i / x.cols * x.stride + i % x.cols)));
    round_values(values, operands);
    matrix = {values.data(), x.rows, x.cols, x.cols};
  }

  static void round_values(std::vector<float>& values, DType operands) {
    if (operands != DType::bf16) return;
    std::vector<BFloat16> rounded(values.size());
    round_to_bf16(values.data(), rounded.data(), std::ssize(values));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = std::bit_cast<float>(uint32_t{rounded[i].bits} << 16);
  }
};

}  // namespace

Doubles product(const Matrix& a, const Matrix& b) {
  Doubles c(static_cast<size_t>(a.rows * b.cols));
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t k = 0; k < a.cols; ++k) {
      for (int64_t j = 0; j < b.cols; ++j) {
        c[at(i, b.cols, j)] += get(a.data, i * a.stride + k) * get(b.data, k * b.stride + j);
      }
    }
  }
  return c;
}

Doubles product_transposed_a(const Matrix& a, const Matrix& b) {
  Doubles c(static_cast<size_t>(a.cols * b.cols));
  for (int64_t k = 0; k < a.rows; ++k) {
    for (int64_t i = 0; i < a.cols; ++i) {
      for (int64_t j = 0; j < b.cols; ++j) {
        c[at(i, b.cols, j)] += get(a.data, k * a.stride + i) * get(b.data, k * b.stride + j);
      }
    }
  }
  return c;
}

Doubles product_transposed_b(const Matrix& x, const WeightRows& w) {
  if (w.dtype == DType::i8) {
    Doubles y(static_cast<size_t>(x.rows * w.rows));
    for (int64_t r = 0; r < x.rows; ++r) {
      multiply_int8(quantize_row(x.data.f32() + r * x.stride, x.cols), w, y.data() + r * w.rows);
    }
    return y;
  }
  if (in_blocks(w.dtype)) {
    const std::vector<float> rounded = rounded_by_groups(x);
    return product_with_numbers({rounded.data(), x.rows, x.cols, x.cols}, w);
  }
  return product_with_numbers(x, w);
}

QuantizedRow quantize_row(const float* x, int64_t count) {
  constexpr float kSmallest = 1e-30f;  // a narrower range becomes zeros, because 1 / scale would overflow
  QuantizedRow q;
  q.steps.resize(static_cast<size_t>(count));
  float low = 0, high = 0;  // the range includes 0
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(x[i])) {
      q.scale = std::numeric_limits<float>::quiet_NaN();
      return q;
    }
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  const float range = high - low;
  if (!(range > kSmallest)) return q;
  // In float, as on the CPU, for exactly the same numbers.
  const float inverse = 255 / range;
  q.scale = range / 255;
  q.zero_point = static_cast<int32_t>(std::nearbyint(-low * inverse));
  for (int64_t i = 0; i < count; ++i) {
    const auto step = static_cast<int32_t>(std::nearbyint(x[i] * inverse)) + q.zero_point;
    q.steps[static_cast<size_t>(i)] = std::clamp(step, 0, 255);
  }
  return q;
}

RightHandSide pack_transposed(std::span<const Matrix> blocks, DType operands) {
  RightHandSide b;
  b.rows = blocks.front().cols;
  for (const Matrix& block : blocks) b.cols += block.rows;
  b.packed.resize(at(b.rows, b.cols, 0));
  int64_t first = 0;
  for (const Matrix& block : blocks) {
    for (int64_t r = 0; r < block.rows; ++r) {
      for (int64_t c = 0; c < block.cols; ++c)
        b.packed[at(c, b.cols, first + r)] = block.data.f32()[r * block.stride + c];
    }
    first += block.rows;
  }
  Rounded::round_values(b.packed, operands);
  b.operands = operands;
  return b;
}

RightHandSide pack_plain(std::span<const Matrix> blocks, DType operands) {
  RightHandSide b;
  b.cols = blocks.front().cols;
  for (const Matrix& block : blocks) {
    b.rows += block.rows;
    for (int64_t r = 0; r < block.rows; ++r) {
      const float* const row = block.data.f32() + r * block.stride;
      b.packed.insert(b.packed.end(), row, row + block.cols);
    }
  }
  Rounded::round_values(b.packed, operands);
  b.operands = operands;
  return b;
}

RightHandSide view(std::span<const WeightRows> blocks) {
  RightHandSide b;
  b.in_place.assign(blocks.begin(), blocks.end());
  return b;
}

void matmul(const Matrix& a, const RightHandSide& b, const float* bias, const MutableMatrix& c,
            Accumulate accumulate) {
  const auto put = [&](Doubles columns, int64_t first, int64_t count) {
    for (size_t i = 0; i < columns.size() && bias != nullptr; ++i)
      columns[i] += double{bias[first + static_cast<int64_t>(i) % count]};
    store(columns, count, c.data + first, c.stride, accumulate);
  };
  const Rounded left(a, b.operands);
  if (b.in_place.empty())
    return put(product(left.matrix, {b.packed.data(), b.rows, b.cols, b.cols}), 0, b.cols);
  int64_t first = 0;
  for (const WeightRows& w : b.in_place) {
    put(product_transposed_b(left.matrix, w), first, w.rows);
    first += w.rows;
  }
}

void matmul_transposed_a(const Matrix& a, const Matrix& b, const MutableMatrix& c, Accumulate accumulate,
                         DType operands) {
  store(product_transposed_a(Rounded(a, operands).matrix, Rounded(b, operands).matrix), c.cols, c.data,
        c.stride, accumulate);
}

}  // namespace qkv::kernels::reference
