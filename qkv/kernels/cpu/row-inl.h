// Loops over the elements of a row in vectors, with a partial vector at the end. Included once per Highway
// target (see hwy/foreach_target.h), hence the unusual guard.

#if defined(QKV_KERNELS_CPU_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_CPU_ROW_INL_H_
#undef QKV_KERNELS_CPU_ROW_INL_H_
#else
#define QKV_KERNELS_CPU_ROW_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "qkv/tensor/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVector = hn::Vec<Floats>;

// The used part of a vector: all lanes, or the first `count` (at least 1, fewer than all).
struct Full {};
struct Part {
  size_t count;
};

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const hn::TFromD<D>* from, Full) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, hn::TFromD<D>* to, Full) {
  hn::StoreU(v, d, to);
}

// Lanes beyond the part are zero; nothing beyond it is read or written.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const hn::TFromD<D>* from, Part part) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(d)] = {};
  for (size_t i = 0; i < part.count; ++i) lanes[i] = from[i];
  return hn::Load(d, lanes);
#else
  return hn::MaskedLoad(hn::FirstN(d, part.count), d, from);
#endif
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, hn::TFromD<D>* to, Part part) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  for (size_t i = 0; i < part.count; ++i) to[i] = lanes[i];
#else
  hn::BlendedStore(v, hn::FirstN(d, part.count), d, to);
#endif
}

using Halves = hn::Rebind<uint16_t, Floats>;  // the bits of 16-bit floats

// Widens, exactly. The second argument selects the type.
HWY_INLINE FloatVector widen(hn::Vec<Halves> v, BFloat16 /*type*/) {
  const hn::RebindToUnsigned<Floats> bits;
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(bits, v)));
}

HWY_INLINE FloatVector widen(hn::Vec<Halves> v, Float16 /*type*/) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const hn::Rebind<hwy::float16_t, Floats> type;
  return hn::PromoteTo(Floats(), hn::BitCast(type, v));
#else  // as in tensor/half.h; Highway's own loses infinities here
  const Floats d;
  const hn::RebindToSigned<Floats> whole;
  const auto bits = hn::PromoteTo(whole, v), sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(whole, 0x8000)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(whole, 0x7FFF)));
  const auto rebias = hn::Set(whole, (127 - 15) << 23);
  const auto special = hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(whole, 0x0F7FFFFF)), rebias);
  const auto normal = hn::Add(hn::Add(magnitude, rebias), special);
  const auto fraction = hn::ConvertTo(d, hn::And(bits, hn::Set(whole, 0x3FF)));
  const auto subnormal = hn::BitCast(whole, hn::Mul(fraction, hn::Set(d, 0x1p-24f)));
  const auto small = hn::Lt(magnitude, hn::Set(whole, 0x00800000));
  return hn::BitCast(d, hn::Or(hn::IfThenElse(small, subnormal, normal), sign));
#endif
}

template <class Half, class P>
HWY_INLINE FloatVector load_halves(const Half* from, P part) {
  return widen(load(Halves(), reinterpret_cast<const uint16_t*>(from), part), Half());
}

using FloatBits = hn::RebindToUnsigned<Floats>;

// The numbers as bf16, to nearest, ties to even, in the upper halves of the results. The lower halves are
// zeros.
HWY_INLINE hn::Vec<FloatBits> rounded(FloatVector numbers) {
  const FloatBits d;
  const auto bits = hn::BitCast(d, numbers);
  const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const auto nearest = hn::Add(bits, hn::Add(last, hn::Set(d, 0x7FFF)));
  // A quiet NaN, because the payload may be truncated.
  const auto nan = hn::Or(bits, hn::Set(d, 0x400000));
  const auto is_nan = hn::RebindMask(d, hn::IsNaN(numbers));
  return hn::And(hn::IfThenElse(is_nan, nan, nearest), hn::Set(d, 0xFFFF0000u));
}

template <class P>
HWY_INLINE void store_rounded(FloatVector v, BFloat16* to, P part) {
  const Halves halves;
  const auto bits = hn::TruncateTo(halves, hn::ShiftRight<16>(rounded(v)));
  store(halves, bits, reinterpret_cast<uint16_t*>(to), part);
}

template <class D>
HWY_INLINE hn::Vec<D> zero_rest(D /*d*/, hn::Vec<D> v, Full) {
  return v;
}
template <class D>
HWY_INLINE hn::Vec<D> zero_rest(D d, hn::Vec<D> v, Part part) {
  return hn::IfThenElseZero(hn::FirstN(d, part.count), v);
}

// Calls body(part, i) for the vectors that cover [0, count).
template <class D, class Body>
HWY_INLINE void for_vectors(D d, int64_t count, const Body& body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(Full{}, i);
  if (i < count) body(Part{static_cast<size_t>(count - i)}, i);
}

HWY_INLINE double sum_of_lanes(Floats d, FloatVector v) {
  const hn::ScalableTag<double> doubles;
  const hn::Rebind<float, decltype(doubles)> part;
  HWY_ALIGN float lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  auto sum = hn::Zero(doubles);
  for (size_t i = 0; i < hn::Lanes(d); i += hn::Lanes(doubles)) {
    sum = hn::Add(sum, hn::PromoteTo(doubles, hn::Load(part, lanes + i)));
  }
  return hn::GetLane(hn::SumOfLanes(doubles, sum));
}

HWY_INLINE double sum_of_lanes(hn::ScalableTag<double> d, hn::Vec<hn::ScalableTag<double>> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

// The sum over [0, count) of the vectors value(part, i), ignoring lanes beyond the part. At most 16 numbers
// are added consecutively in float; the rest is in double precision. The order depends on `count` only.
template <class D, class Value>
HWY_INLINE double sum_of_row(D d, int64_t count, const Value& value) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), block = 64 * lanes;
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += block) {
    const int64_t end = std::min(begin + block, count);
    auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    int64_t i = begin;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      sum0 = hn::Add(sum0, value(Full{}, i));
      sum1 = hn::Add(sum1, value(Full{}, i + lanes));
      sum2 = hn::Add(sum2, value(Full{}, i + 2 * lanes));
      sum3 = hn::Add(sum3, value(Full{}, i + 3 * lanes));
    }
    for (; i + lanes <= end; i += lanes) sum0 = hn::Add(sum0, value(Full{}, i));
    if (i < end) {
      const Part part{static_cast<size_t>(end - i)};
      sum1 = hn::Add(sum1, zero_rest(d, value(part, i), part));
    }
    total += sum_of_lanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)));
  }
  return total;
}

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
