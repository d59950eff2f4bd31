// The exponential function on vectors. Included once per Highway target.

#if defined(QKV_KERNELS_CPU_EXPONENTIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_CPU_EXPONENTIAL_INL_H_
#undef QKV_KERNELS_CPU_EXPONENTIAL_INL_H_
#else
#define QKV_KERNELS_CPU_EXPONENTIAL_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

// exp(x) with a relative error below 2e-7; 0 below -87.3 (where the result would be denormal), infinity above
// 88.7, NaN for NaN (unlike hwy/contrib/math, which returns 0). exp(x) = 2^n exp(r), |r| <= ln(2) / 2.
HWY_INLINE FloatVector exponential(Floats d, FloatVector x) {
  const hn::RebindToSigned<Floats> d32;
  // Adding this to a small number rounds it to an integer, in the lowest bits of the sum.
  const auto rounder = hn::Set(d, 0x1.8p23f);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504089f), rounder);
  const auto n = hn::Sub(shifted, rounder);
  auto r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e4p-1f), x);  // few bits, so that the product with n is exact
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6f), r);
  auto p = hn::Set(d, 0.0013814465f);  // minimax for exp(r) = 1 + r + r^2 p(r), relative error 3e-9
  p = hn::MulAdd(p, r, hn::Set(d, 0.008368781f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.041668393f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.1666652f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.49999994f));
  const auto one_plus = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(d32, shifted));
  const auto y = hn::BitCast(d, hn::Add(hn::BitCast(d32, one_plus), exponent));
  // The comparison is false for NaN, which is thus kept.
  const auto in_range_or_large = hn::IfThenElse(hn::Le(x, hn::Set(d, 88.72283f)), y,
                                                hn::Mul(x, hn::Set(d, std::numeric_limits<float>::max())));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.33654f)), in_range_or_large);
}

// exp(x) for x below 88 (arguments of a softmax hardly exceed 0), with a relative error below 2e-7; 0 below
// -87.3, NaN for NaN.
HWY_INLINE FloatVector exponential_of_difference(Floats d, FloatVector x) {
  const hn::RebindToSigned<Floats> d32;
  // As above; adding 127 gives the exponent's bits.
  const auto rounder = hn::Set(d, 0x1.8p23f + 127.0f);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504089f), rounder);
  const auto n = hn::Sub(shifted, rounder);
  auto r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e4p-1f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6f), r);
  auto p = hn::Set(d, 0.0013814465f);
  p = hn::MulAdd(p, r, hn::Set(d, 0.008368781f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.041668393f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.1666652f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.49999994f));
  const auto more = hn::MulAdd(hn::Mul(r, r), p, r);
  const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(d32, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.33654f)), hn::MulAdd(more, power, power));
}

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
