#include "qkv/kernels/cpu/quantized_rows.h"

#include <algorithm>

#include "qkv/base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/quantized_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

void quantize_range(const float* x, int64_t x_stride, int64_t begin, int64_t end, int64_t cols, uint8_t* q,
                    int64_t q_stride, float* scales, int32_t* zeros) {
  const Floats d;
  const hn::RebindToSigned<Floats> whole;
  const hn::Rebind<uint8_t, Floats> bytes;
  constexpr float kSteps = 255;
  constexpr float kSmallest = 1e-30f;  // below it, 1 / scale would overflow: such a row is zeros
  for (int64_t row = begin; row < end; ++row) {
    const float* const from = x + row * x_stride;
    uint8_t* const to = q + row * q_stride;
    auto lowest = hn::Zero(d), highest = lowest, flaw = lowest;
    for_vectors(d, cols, [&](auto part, int64_t i) HWY_ATTR {
      const auto v = load(d, from + i, part);
      lowest = hn::Min(lowest, v);
      highest = hn::Max(highest, v);
      flaw = hn::Add(flaw, hn::Sub(v, v));  // of what is not finite: NaN
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
      store(bytes, hn::DemoteTo(bytes, hn::Add(steps, zero_vector)), to + i, part);
    });
    std::fill(to + cols, to + q_stride, uint8_t{0});
    // A NaN or an infinity among the inputs must not become a number.
    scales[row] = (usable ? range / kSteps : 0.0f) + hn::GetLane(hn::SumOfLanes(d, flaw));
    zeros[row] = zero;
  }
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels {
namespace {

HWY_EXPORT(quantize_range);

constexpr int64_t kPiece = 65536;  // numbers

}  // namespace

QuantizedRows quantize_inputs(const Matrix& a) {
  const MemoryScope scope(MemoryUse::scratch);
  QuantizedRows q;
  q.stride = (a.cols + 63) / 64 * 64;
  const int64_t bytes = a.rows * q.stride, per_row = static_cast<int64_t>(sizeof(float) + sizeof(int32_t));
  q.memory = allocate(static_cast<size_t>(bytes + a.rows * per_row));
  q.numbers = reinterpret_cast<uint8_t*>(q.memory.get());
  q.scales = reinterpret_cast<float*>(q.memory.get() + bytes);
  q.zeros = reinterpret_cast<int32_t*>(q.scales + a.rows);
  parallel_for(a.rows, std::max<int64_t>(1, kPiece / q.stride), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(quantize_range)
    (a.data, a.stride, begin, end, a.cols, q.numbers, q.stride, q.scales, q.zeros);
  });
  return q;
}

}  // namespace qkv::kernels
#endif  // HWY_ONCE
