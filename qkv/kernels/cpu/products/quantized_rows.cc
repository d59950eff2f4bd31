#include "qkv/kernels/cpu/products/quantized_rows.h"

#include <algorithm>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/products/int8_sums.h"
#include "qkv/kernels/cpu/products/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/products/quantized_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

using Integers = hn::RebindToSigned<Floats>;

HWY_INLINE hn::Vec<hn::Rebind<uint8_t, Floats>> to_steps(hn::Rebind<uint8_t, Floats> d, hn::Vec<Integers> v) {
  return hn::DemoteTo(d, v);
}
HWY_INLINE hn::Vec<hn::Rebind<int16_t, Floats>> to_steps(hn::Rebind<int16_t, Floats> d, hn::Vec<Integers> v) {
  const Integers whole;
  return hn::DemoteTo(d, hn::Clamp(v, hn::Zero(whole), hn::Set(whole, 255)));
}

// As uint8_t or int16_t; the stride is one of numbers.
template <class Number>
void quantize(const F32Matrix& x, Number* q, int64_t q_stride, float* scales, int32_t* zeros) {
  const Floats d;
  const Integers whole;
  const hn::Rebind<Number, Floats> numbers;
  constexpr float kSteps = 255;
  constexpr float kSmallest = 1e-30f;  // below it, 1 / scale would overflow: the row becomes zeros
  const int64_t cols = x.cols;
  for (int64_t row = 0; row < x.rows; ++row) {
    const float* const from = x.data + row * x.stride;
    Number* const to = q + row * q_stride;
    auto lowest = hn::Zero(d), highest = lowest, flaw = lowest;
    for_vectors(d, cols, [&](auto part, int64_t i) HWY_ATTR {
      const auto v = load(d, from + i, part);
      lowest = hn::Min(lowest, v);
      highest = hn::Max(highest, v);
      flaw = hn::Add(flaw, hn::Sub(v, v));  // NaN if v is not finite
    });
    const float low = hn::GetLane(hn::MinOfLanes(d, lowest));
    const float range = hn::GetLane(hn::MaxOfLanes(d, highest)) - low;
    const bool usable = range > kSmallest;
    const float inverse = usable ? kSteps / range : 0.0f;
    const auto factor = hn::Set(d, inverse);
    const int32_t zero = hn::GetLane(hn::NearestInt(hn::Set(d, -low * inverse)));
    const auto zero_vector = hn::Set(whole, zero);
    for_vectors(d, cols, [&](auto part, int64_t i) HWY_ATTR {
      const auto steps = hn::NearestInt(hn::Mul(load(d, from + i, part), factor));
      store(numbers, to_steps(numbers, hn::Add(steps, zero_vector)), to + i, part);
    });
    std::fill(to + cols, to + q_stride, Number{0});
    // A NaN or an infinity among the inputs must not become a finite number.
    scales[row] = (usable ? range / kSteps : 0.0f) + hn::GetLane(hn::SumOfLanes(d, flaw));
    zeros[row] = zero;
  }
}

void quantize_to_bytes(const F32Matrix& x, uint8_t* q, int64_t q_stride, float* scales, int32_t* zeros) {
  quantize(x, q, q_stride, scales, zeros);
}
void quantize_to_words(const F32Matrix& x, uint8_t* q, int64_t q_stride, float* scales, int32_t* zeros) {
  quantize(x, reinterpret_cast<int16_t*>(q), q_stride / 2, scales, zeros);
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels {
namespace {

HWY_EXPORT(quantize_to_bytes);
HWY_EXPORT(quantize_to_words);

constexpr int64_t kPiece = 65536;  // bytes
// Rows of words are longer by this than a power of two, which would map them to few sets of the L1 cache.
constexpr int64_t kPad = 64;

}  // namespace

QuantizedRows quantize_inputs(const F32Matrix& a, RowLayout layout) {
  const MemoryScope scope(MemoryUse::scratch);
  QuantizedRows q;
  q.layout = layout;
  q.stride = (a.cols + kAmxDepth - 1) / kAmxDepth * kAmxDepth;
  if (layout == RowLayout::words) q.stride = 2 * q.stride + kPad;
  const int64_t together = layout == RowLayout::tiles ? kAmxRows : 1;
  const int64_t groups = (a.rows + together - 1) / together, group_bytes = together * q.stride;
  const int64_t bytes = groups * group_bytes;
  const int64_t per_row = static_cast<int64_t>(sizeof(float) + sizeof(int32_t));
  q.memory = allocate(static_cast<size_t>(bytes + a.rows * per_row));
  q.numbers = reinterpret_cast<uint8_t*>(q.memory.get());
  q.scales = reinterpret_cast<float*>(q.memory.get() + bytes);
  q.zeros = reinterpret_cast<int32_t*>(q.scales + a.rows);
  const auto quantize = [&](int64_t begin, int64_t end, uint8_t* to) {
    const F32Matrix rows{a.data + begin * a.stride, end - begin, a.cols, a.stride};
    if (layout == RowLayout::words) {
      HWY_DYNAMIC_DISPATCH(quantize_to_words)(rows, to, q.stride, q.scales + begin, q.zeros + begin);
    } else {
      HWY_DYNAMIC_DISPATCH(quantize_to_bytes)(rows, to, q.stride, q.scales + begin, q.zeros + begin);
    }
  };
  parallel_for(groups, std::max<int64_t>(1, kPiece / std::max<int64_t>(group_bytes, 1)),
               [&](int64_t begin, int64_t end) {
                 if (layout != RowLayout::tiles) return quantize(begin, end, q.numbers + begin * q.stride);
                 uint8_t* const rows = scratch<uint8_t>(Scratch::rows, group_bytes);
                 for (int64_t group = begin; group < end; ++group) {
                   const int64_t first = group * kAmxRows, count = std::min(kAmxRows, a.rows - first);
                   quantize(first, first + count, rows);
                   std::fill(rows + count * q.stride, rows + group_bytes, uint8_t{0});
                   pack_amx_tiles(rows, q.stride, q.numbers + group * group_bytes);
                 }
               });
  return q;
}

}  // namespace qkv::kernels
#endif  // HWY_ONCE
