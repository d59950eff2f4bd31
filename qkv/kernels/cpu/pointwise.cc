#include "qkv/kernels/cpu/kernels.h"

#include <algorithm>

#include "qkv/base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/pointwise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/activation-inl.h"
#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

void scale_range(const float* x, float factor, float* y, int64_t count, Accumulate accumulate) {
  const Floats d;
  const auto vector = hn::Set(d, factor);
  if (accumulate == Accumulate::yes) {
    for_vectors(d, count, [&](auto part, int64_t i) HWY_ATTR {
      store(d, hn::MulAdd(load(d, x + i, part), vector, load(d, y + i, part)), y + i, part);
    });
  } else {
    for_vectors(d, count, [&](auto part, int64_t i) HWY_ATTR {
      store(d, hn::Mul(load(d, x + i, part), vector), y + i, part);
    });
  }
}

void add_range(const float* x, const float* y, float* z, int64_t count) {
  const Floats d;
  for_vectors(d, count, [&](auto part, int64_t i) HWY_ATTR {
    store(d, hn::Add(load(d, x + i, part), load(d, y + i, part)), z + i, part);
  });
}

template <class Function, class Drop>
void activate_rows(const float* x, float* y, int64_t begin, int64_t end, int64_t cols,
                   const Dropout& dropout) {
  const Floats d;
  Drop drop(dropout);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t first = row * cols;
    for_dropped_row(d, drop, row, cols, [&](auto part, int64_t column, int64_t i) HWY_ATTR {
      const auto value = Function::value(d, load(d, x + first + column, part));
      store(d, drop.apply(d, value, i), y + first + column, part);
    });
  }
}

template <class Function, class Drop>
void activate_backward_rows(const float* x, const float* dy, float* dx, int64_t begin, int64_t end,
                            int64_t cols, const Dropout& dropout, Accumulate accumulate) {
  const Floats d;
  Drop drop(dropout);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t first = row * cols;
    for_dropped_row(d, drop, row, cols, [&](auto part, int64_t column, int64_t i) HWY_ATTR {
      const int64_t at = first + column;
      const auto upstream = drop.apply(d, load(d, dy + at, part), i);
      auto gradient = hn::Mul(Function::derivative(d, load(d, x + at, part)), upstream);
      if (accumulate == Accumulate::yes) gradient = hn::Add(gradient, load(d, dx + at, part));
      store(d, gradient, dx + at, part);
    });
  }
}

void relu_backward_range(const float* y, const float* dy, float factor, float* dx, int64_t count) {
  const Floats d;
  const auto factors = hn::Set(d, factor);
  for_vectors(d, count, [&](auto part, int64_t i) HWY_ATTR {
    const auto passes = hn::Gt(load(d, y + i, part), hn::Zero(d));
    store(d, hn::IfThenElseZero(passes, hn::Mul(load(d, dy + i, part), factors)), dx + i, part);
  });
}

void activate_range(Activation activation, const float* x, float* y, int64_t begin, int64_t end, int64_t cols,
                    const Dropout& dropout) {
  with_classes(activation, dropout, [&]<class Function, class Drop>(Function, Drop*) {
    activate_rows<Function, Drop>(x, y, begin, end, cols, dropout);
  });
}

void activate_backward_range(Activation activation, const float* x, const float* dy, float* dx, int64_t begin,
                             int64_t end, int64_t cols, const Dropout& dropout, Accumulate accumulate) {
  with_classes(activation, dropout, [&]<class Function, class Drop>(Function, Drop*) {
    activate_backward_rows<Function, Drop>(x, dy, dx, begin, end, cols, dropout, accumulate);
  });
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels::cpu {
namespace {

HWY_EXPORT(scale_range);
HWY_EXPORT(add_range);
HWY_EXPORT(activate_range);
HWY_EXPORT(activate_backward_range);
HWY_EXPORT(relu_backward_range);

constexpr int64_t kPiece = 32768;  // elements per piece of work

int64_t rows_of_piece(int64_t cols) { return std::max<int64_t>(1, kPiece / std::max<int64_t>(cols, 1)); }

}  // namespace

void copy(const float* x, float* y, int64_t count, Accumulate accumulate) {
  parallel_for(count, kPiece, [&](int64_t begin, int64_t end) {
    if (accumulate == Accumulate::yes) {
      HWY_DYNAMIC_DISPATCH(add_range)(x + begin, y + begin, y + begin, end - begin);
    } else {
      std::copy(x + begin, x + end, y + begin);
    }
  });
}

void scale_by(const float* x, const float* factor, float* y, int64_t count, Accumulate accumulate) {
  scale(x, *factor, y, count, accumulate);
}

void total(const float* x, int64_t count, float factor, double* total, float* scaled) {
  *total = 0;
  for (int64_t i = 0; i < count; ++i) *total += double{x[i]};
  if (scaled != nullptr) *scaled = static_cast<float>(*total * double{factor});
}

void scale(const float* x, float factor, float* y, int64_t count, Accumulate accumulate) {
  parallel_for(count, kPiece, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(scale_range)(x + begin, factor, y + begin, end - begin, accumulate);
  });
}

void add(const float* x, const float* y, float* z, int64_t count) {
  parallel_for(count, kPiece, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_range)(x + begin, y + begin, z + begin, end - begin);
  });
}

void activate(Activation activation, const float* x, float* y, int64_t rows, int64_t cols,
              const Dropout& dropout) {
  parallel_for(rows, rows_of_piece(cols), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(activate_range)(activation, x, y, begin, end, cols, dropout);
  });
}

void activate_backward(Activation activation, const float* x, const float* dy, float* dx, int64_t rows,
                       int64_t cols, const Dropout& dropout, Accumulate accumulate) {
  parallel_for(rows, rows_of_piece(cols), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(activate_backward_range)
    (activation, x, dy, dx, begin, end, cols, dropout, accumulate);
  });
}

void relu_backward(const float* y, const float* dy, float factor, float* dx, int64_t count) {
  parallel_for(count, kPiece, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(relu_backward_range)(y + begin, dy + begin, factor, dx + begin, end - begin);
  });
}

}  // namespace qkv::kernels::cpu
#endif
