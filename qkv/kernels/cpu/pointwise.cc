#include "qkv/kernels/cpu/kernels.h"

#include <algorithm>
#include <type_traits>

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

// Numbers of either dtype, computed with in f32.
template <class P>
HWY_INLINE FloatVector load_as_f32(const float* from, P part) {
  return load(Floats(), from, part);
}
template <class P>
HWY_INLINE FloatVector load_as_f32(const BFloat16* from, P part) {
  return load_halves(from, part);
}
template <class P>
HWY_INLINE void store_f32(FloatVector v, float* to, P part) {
  store(Floats(), v, to, part);
}
template <class P>
HWY_INLINE void store_f32(FloatVector v, BFloat16* to, P part) {
  store_rounded(v, to, part);
}

// y (+)= x. A copy without a conversion keeps all bits, those of a NaN too.
template <class X, class Y>
void copy_numbers(const X* x, Y* y, int64_t count, Accumulate accumulate) {
  if (accumulate == Accumulate::yes) {
    for_vectors(Floats(), count, [&](auto part, int64_t i) HWY_ATTR {
      store_f32(hn::Add(load_as_f32(x + i, part), load_as_f32(y + i, part)), y + i, part);
    });
  } else if constexpr (std::is_same_v<X, Y>) {
    std::copy(x, x + count, y);
  } else {
    for_vectors(Floats(), count,
                [&](auto part, int64_t i) HWY_ATTR { store_f32(load_as_f32(x + i, part), y + i, part); });
  }
}

void copy_range(Elements x, MutableElements y, int64_t count, Accumulate accumulate) {
  const auto copy_from = [&]<class X>(const X* from) {
    if (y.dtype == DType::bf16) {
      copy_numbers(from, static_cast<BFloat16*>(y.data), count, accumulate);
    } else {
      copy_numbers(from, y.f32(), count, accumulate);
    }
  };
  x.dtype == DType::bf16 ? copy_from(static_cast<const BFloat16*>(x.data)) : copy_from(x.f32());
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
HWY_EXPORT(copy_range);
HWY_EXPORT(activate_range);
HWY_EXPORT(activate_backward_range);
HWY_EXPORT(relu_backward_range);

constexpr int64_t kPiece = 32768;  // elements per piece of work

int64_t rows_of_piece(int64_t cols) { return std::max<int64_t>(1, kPiece / std::max<int64_t>(cols, 1)); }

}  // namespace

void copy(Elements x, MutableElements y, int64_t count, Accumulate accumulate) {
  parallel_for(count, kPiece, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(copy_range)(x + begin, y + begin, end - begin, accumulate);
  });
}

void scale_by(Elements x, const float* factor, MutableElements y, int64_t count, Accumulate accumulate) {
  scale(x, *factor, y, count, accumulate);
}

void total(const float* x, int64_t count, float factor, double* total, float* scaled) {
  *total = 0;
  for (int64_t i = 0; i < count; ++i) *total += double{x[i]};
  if (scaled != nullptr) *scaled = static_cast<float>(*total * double{factor});
}

void scale(Elements x, float factor, MutableElements y, int64_t count, Accumulate accumulate) {
  const float* const from = x.f32();
  float* const to = y.f32();
  parallel_for(count, kPiece, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(scale_range)(from + begin, factor, to + begin, end - begin, accumulate);
  });
}

void add(Elements x, Elements y, MutableElements z, int64_t count) {
  const float *const left = x.f32(), *const right = y.f32();
  float* const to = z.f32();
  parallel_for(count, kPiece, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_range)(left + begin, right + begin, to + begin, end - begin);
  });
}

void activate(Activation activation, Elements x, MutableElements y, int64_t rows, int64_t cols,
              const Dropout& dropout) {
  const float* const from = x.f32();
  float* const to = y.f32();
  parallel_for(rows, rows_of_piece(cols), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(activate_range)(activation, from, to, begin, end, cols, dropout);
  });
}

void activate_backward(Activation activation, Elements x, Elements dy, MutableElements dx, int64_t rows,
                       int64_t cols, const Dropout& dropout, Accumulate accumulate) {
  const float *const from = x.f32(), *const upstream = dy.f32();
  float* const to = dx.f32();
  parallel_for(rows, rows_of_piece(cols), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(activate_backward_range)
    (activation, from, upstream, to, begin, end, cols, dropout, accumulate);
  });
}

void relu_backward(Elements y, Elements dy, float factor, MutableElements dx, int64_t count) {
  const float *const from = y.f32(), *const upstream = dy.f32();
  float* const to = dx.f32();
  parallel_for(count, kPiece, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(relu_backward_range)
    (from + begin, upstream + begin, factor, to + begin, end - begin);
  });
}

}  // namespace qkv::kernels::cpu
#endif
