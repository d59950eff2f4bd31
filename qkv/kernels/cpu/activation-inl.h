// Activation functions and their derivatives on vectors. Included once per Highway target.

#if defined(QKV_KERNELS_CPU_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_CPU_ACTIVATION_INL_H_
#undef QKV_KERNELS_CPU_ACTIVATION_INL_H_
#else
#define QKV_KERNELS_CPU_ACTIVATION_INL_H_
#endif

#include <hwy/highway.h>

#include "qkv/kernels/cpu/dropout-inl.h"
#include "qkv/kernels/cpu/exponential-inl.h"
#include "qkv/kernels/kinds.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

// Each activation has value(d, x) and derivative(d, x). value() propagates NaN.

struct Identity {
  static HWY_INLINE FloatVector value(Floats /*d*/, FloatVector x) { return x; }
  static HWY_INLINE FloatVector derivative(Floats d, FloatVector /*x*/) { return hn::Set(d, 1.0f); }
};

struct Relu {
  static HWY_INLINE FloatVector value(Floats d, FloatVector x) {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  }
  static HWY_INLINE FloatVector derivative(Floats d, FloatVector x) {
    return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1.0f));
  }
};

struct ReluSquared {
  static HWY_INLINE FloatVector value(Floats d, FloatVector x) {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, x));
  }
  static HWY_INLINE FloatVector derivative(Floats d, FloatVector x) {
    return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), hn::Add(x, x));
  }
};

// 1 / (1 + exp(-x))
HWY_INLINE FloatVector sigmoid(Floats d, FloatVector x) {
  const auto one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, exponential(d, hn::Neg(x))));
}

// s = 1 / (1 + exp(-x)), and s (1 - s) without cancellation in 1 - s.
HWY_INLINE FloatVector sigmoid(Floats d, FloatVector x, FloatVector& slope) {
  const auto one = hn::Set(d, 1.0f);
  const auto e = exponential(d, hn::Neg(hn::Abs(x)));
  const auto larger = hn::Div(one, hn::Add(one, e)), smaller = hn::Mul(e, larger);
  slope = hn::Mul(larger, smaller);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), smaller, larger);
}

struct Silu {
  static HWY_INLINE FloatVector value(Floats d, FloatVector x) { return hn::Mul(x, sigmoid(d, x)); }
  static HWY_INLINE FloatVector derivative(Floats d, FloatVector x) {
    FloatVector slope;
    const auto s = sigmoid(d, x, slope);
    return hn::MulAdd(x, slope, s);
  }
};

struct QuickGelu {
  static HWY_INLINE FloatVector argument(Floats d, FloatVector x) { return hn::Mul(hn::Set(d, 1.702f), x); }
  static HWY_INLINE FloatVector value(Floats d, FloatVector x) {
    return hn::Mul(x, sigmoid(d, argument(d, x)));
  }
  static HWY_INLINE FloatVector derivative(Floats d, FloatVector x) {
    FloatVector slope;
    const auto s = sigmoid(d, argument(d, x), slope);
    return hn::MulAdd(argument(d, x), slope, s);
  }
};

struct Tanh {
  static HWY_INLINE FloatVector value(Floats d, FloatVector x) {
    const auto one = hn::Set(d, 1.0f), size = hn::Abs(x);
    const auto e = exponential(d, hn::Mul(size, hn::Set(d, -2.0f)));
    const auto far = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
    // Near 0 the difference would cancel: uses the Taylor series, whose next term is below 1e-8.
    const auto square = hn::Mul(x, x);
    auto p = hn::Set(d, 62.0f / 2835);
    p = hn::MulAdd(p, square, hn::Set(d, -17.0f / 315));
    p = hn::MulAdd(p, square, hn::Set(d, 2.0f / 15));
    p = hn::MulAdd(p, square, hn::Set(d, -1.0f / 3));
    const auto near = hn::MulAdd(hn::Mul(p, square), x, x);
    return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.25f)), near, far);
  }
  // 1 - tanh(x)^2 = 4 e / (1 + e)^2, e = exp(-2 |x|).
  static HWY_INLINE FloatVector derivative(Floats d, FloatVector x) {
    const auto e = exponential(d, hn::Mul(hn::Abs(x), hn::Set(d, -2.0f)));
    const auto sum = hn::Add(hn::Set(d, 1.0f), e);
    return hn::Div(hn::Mul(hn::Set(d, 4.0f), e), hn::Mul(sum, sum));
  }
};

// x / 2 (1 + tanh u) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanh {
  static constexpr float kTwoRoot = 1.59576912161f, kCubic = 0.044715f;  // 2 sqrt(2 / pi)

  static HWY_INLINE FloatVector argument(Floats d, FloatVector x) {
    const auto inner = hn::MulAdd(hn::Set(d, kCubic), hn::Mul(x, x), hn::Set(d, 1.0f));
    return hn::Mul(hn::Mul(hn::Set(d, kTwoRoot), x), inner);
  }
  static HWY_INLINE FloatVector value(Floats d, FloatVector x) {
    return hn::Mul(x, sigmoid(d, argument(d, x)));
  }
  static HWY_INLINE FloatVector derivative(Floats d, FloatVector x) {
    // Beyond 20 the sigmoid is exactly 0 or 1; squares of very large numbers would overflow.
    const auto limit = hn::Set(d, 20.0f);
    x = hn::IfThenElse(hn::Gt(x, limit), limit, hn::IfThenElse(hn::Lt(x, hn::Neg(limit)), hn::Neg(limit), x));
    FloatVector slope;
    const auto s = sigmoid(d, argument(d, x), slope);
    const auto inner =
        hn::Mul(hn::Set(d, kTwoRoot), hn::MulAdd(hn::Set(d, 3 * kCubic), hn::Mul(x, x), hn::Set(d, 1.0f)));
    return hn::MulAdd(hn::Mul(x, slope), inner, s);
  }
};

// x Phi(x), with the normal distribution function Phi.
struct GeluExact {
  // Phi(x), to 1.5e-7, and density = exp(-x^2 / 2). For x <= 0, Phi(x) = exp(-x^2 / 2) P(1 / (1 - 0.3 x)),
  // where P is a minimax polynomial with a relative error of 9e-8 for -14 < x; positive x follow by symmetry.
  static HWY_INLINE FloatVector distribution(Floats d, FloatVector x, FloatVector& density) {
    const auto one = hn::Set(d, 1.0f);
    const auto t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.3f), hn::Abs(x), one));
    auto p = hn::Set(d, 0.004483262542635202f);
    p = hn::MulAdd(p, t, hn::Set(d, 0.015419968403875828f));
    p = hn::MulAdd(p, t, hn::Set(d, -0.11857447773218155f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.16585992276668549f));
    p = hn::MulAdd(p, t, hn::Set(d, -0.028241321444511414f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.11877794563770294f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.10215701162815094f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.12047386914491653f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.11964386701583862f));
    density = exponential(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5f)));
    const auto tail = hn::Mul(hn::Mul(p, t), density);
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Sub(one, tail), tail);
  }
  static HWY_INLINE FloatVector value(Floats d, FloatVector x) {
    FloatVector density;
    return hn::Mul(x, distribution(d, x, density));
  }
  static HWY_INLINE FloatVector derivative(Floats d, FloatVector x) {
    FloatVector density;
    const auto phi = distribution(d, x, density);
    return hn::MulAdd(hn::Mul(x, density), hn::Set(d, 0.398942280401f), phi);  // 1 / sqrt(2 pi)
  }
};

// Calls call(function, drop) with objects for an activation and a dropout.
template <class Call>
void with_classes(Activation activation, const Dropout& dropout, const Call& call) {
  const auto with_drop = [&](auto function) {
    if (dropout.active()) {
      call(function, static_cast<DropSome*>(nullptr));
    } else {
      call(function, static_cast<KeepAll*>(nullptr));
    }
  };
  switch (activation) {
    case Activation::identity:
      return with_drop(Identity());
    case Activation::relu:
      return with_drop(Relu());
    case Activation::gelu_exact:
      return with_drop(GeluExact());
    case Activation::gelu_tanh:
      return with_drop(GeluTanh());
    case Activation::silu:
      return with_drop(Silu());
    case Activation::tanh:
      return with_drop(Tanh());
    case Activation::relu_squared:
      return with_drop(ReluSquared());
    case Activation::quick_gelu:
      return with_drop(QuickGelu());
  }
}

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
