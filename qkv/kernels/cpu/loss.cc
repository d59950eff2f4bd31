#include "qkv/kernels/cpu/kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "qkv/base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/loss.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/exponential-inl.h"
#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

// The maximum of the vectors value(part, i), whose lanes beyond the part must also be elements of the row, or
// `lowest`. May ignore NaN, which makes the sum of exponentials NaN.
template <class Value>
float largest(Floats d, int64_t count, const Value& value) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto max0 = lowest, max1 = lowest, max2 = lowest, max3 = lowest;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    max0 = hn::Max(max0, value(Full{}, i));
    max1 = hn::Max(max1, value(Full{}, i + lanes));
    max2 = hn::Max(max2, value(Full{}, i + 2 * lanes));
    max3 = hn::Max(max3, value(Full{}, i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) max0 = hn::Max(max0, value(Full{}, i));
  if (i < count) {
    const Part part{static_cast<size_t>(count - i)};
    max1 = hn::Max(max1, hn::IfThenElse(hn::FirstN(d, part.count), value(part, i), lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(max0, max1), hn::Max(max2, max3))));
}

// y = x + bias if there is a bias (y may be x); returns the maximum. Without a bias, y is not written.
float add_bias(Floats d, const float* x, const float* bias, float* y, int64_t cols) {
  if (bias == nullptr) {
    return largest(d, cols, [&](auto part, int64_t i) HWY_ATTR { return load(d, x + i, part); });
  }
  return largest(d, cols, [&](auto part, int64_t i) HWY_ATTR {
    const auto sum = hn::Add(load(d, x + i, part), load(d, bias + i, part));
    store(d, sum, y + i, part);
    return sum;
  });
}

// y = exp(x - shift) (y may be x); returns the sum.
double exponentials(Floats d, const float* x, float shift, float* y, int64_t cols) {
  const auto shifts = hn::Set(d, shift);
  return sum_of_row(d, cols, [&](auto part, int64_t i) HWY_ATTR {
    const auto e = exponential(d, hn::Sub(load(d, x + i, part), shifts));
    store(d, e, y + i, part);
    return e;
  });
}

void cross_entropy_rows(const CrossEntropy& a, int64_t begin, int64_t end) {
  const Floats d;
  const double uniform = static_cast<double>(a.smoothing) / static_cast<double>(a.cols);
  for (int64_t row = begin; row < end; ++row) {
    float* x = a.logits + row * a.cols;
    const int64_t label = a.labels[row];
    const float max = add_bias(d, x, a.bias, x, a.cols);
    const auto maxima = hn::Set(d, max);
    // All relative to the maximum: differences of large logits are exact, the logits' sum is not.
    const double label_logit = static_cast<double>(x[label]) - static_cast<double>(max);
    double mean = 0;
    if (a.smoothing != 0) {
      mean =
          sum_of_row(d, a.cols,
                     [&](auto part, int64_t i) HWY_ATTR { return hn::Sub(load(d, x + i, part), maxima); }) /
          static_cast<double>(a.cols);
    }
    const double sum = exponentials(d, x, max, x, a.cols);
    const double log_sum = std::log(sum), nll = log_sum - label_logit;
    a.nll[row] = static_cast<float>(nll);
    a.loss[row] = static_cast<float>(a.smoothing == 0 ? nll
                                                      : (1.0 - static_cast<double>(a.smoothing)) * nll +
                                                            a.smoothing * (log_sum - mean));

    const double grad_scale = a.grad_scale;
    const double label_gradient = grad_scale * (static_cast<double>(x[label]) / sum - uniform -
                                                (1.0 - static_cast<double>(a.smoothing)));
    const auto factor = hn::Set(d, static_cast<float>(grad_scale / sum));
    const auto target = hn::Set(d, static_cast<float>(grad_scale * uniform));
    for_vectors(d, a.cols, [&](auto part, int64_t i) HWY_ATTR {
      store(d, hn::MulSub(load(d, x + i, part), factor, target), x + i, part);
    });
    x[label] = static_cast<float>(label_gradient);
  }
}

void log_softmax_rows(const float* logits, const float* bias, float* log_probabilities, int64_t begin,
                      int64_t end, int64_t cols) {
  const Floats d;
  for (int64_t row = begin; row < end; ++row) {
    const float* x = logits + row * cols;
    float* y = log_probabilities + row * cols;
    const float max = add_bias(d, x, bias, y, cols);
    const float* z = bias == nullptr ? x : y;
    const auto maxima = hn::Set(d, max);
    const double sum = sum_of_row(d, cols, [&](auto part, int64_t i) HWY_ATTR {
      return exponential(d, hn::Sub(load(d, z + i, part), maxima));
    });
    const auto log_sum = hn::Set(d, static_cast<float>(std::log(sum)));
    for_vectors(d, cols, [&](auto part, int64_t i) HWY_ATTR {
      store(d, hn::Sub(hn::Sub(load(d, z + i, part), maxima), log_sum), y + i, part);
    });
  }
}

void softmax_rows(const float* x, float* y, int64_t begin, int64_t end, int64_t cols) {
  const Floats d;
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float* to = y + row * cols;
    const double sum = exponentials(d, from, add_bias(d, from, nullptr, nullptr, cols), to, cols);
    const auto factor = hn::Set(d, static_cast<float>(1.0 / sum));
    for_vectors(d, cols, [&](auto part, int64_t i) HWY_ATTR {
      store(d, hn::Mul(load(d, to + i, part), factor), to + i, part);
    });
  }
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels::cpu {
namespace {

HWY_EXPORT(cross_entropy_rows);
HWY_EXPORT(log_softmax_rows);
HWY_EXPORT(softmax_rows);

// Rows per piece of work: about ten thousand exponentials.
int64_t rows_of_piece(int64_t cols) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(cols, 1)); }

}  // namespace

void cross_entropy(const CrossEntropy& arguments) {
  parallel_for(arguments.rows, rows_of_piece(arguments.cols), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(cross_entropy_rows)(arguments, begin, end);
  });
}

void log_softmax(const float* logits, const float* bias, float* log_probabilities, int64_t rows,
                 int64_t cols) {
  parallel_for(rows, rows_of_piece(cols), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(log_softmax_rows)(logits, bias, log_probabilities, begin, end, cols);
  });
}

void softmax(const float* x, float* y, int64_t rows, int64_t cols) {
  parallel_for(rows, rows_of_piece(cols), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(softmax_rows)(x, y, begin, end, cols);
  });
}

}  // namespace qkv::kernels::cpu
#endif
