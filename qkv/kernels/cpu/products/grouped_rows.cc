#include "qkv/kernels/cpu/products/grouped_rows.h"

#include <algorithm>

#include "qkv/base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/products/grouped_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

// 16 lanes at most, so that two or more vectors cover a group.
using Numbers16 = hn::CappedTag<float, 16>;

template <class Number>
void quantize(const F32Matrix& x, int64_t row, const GroupedRows& to) {
  const Numbers16 d;
  const hn::RebindToSigned<Numbers16> whole;
  const hn::Rebind<Number, Numbers16> numbers;
  constexpr float kSteps = 127;
  constexpr float kSmallest = 1e-30f;  // below it, 1 / scale would overflow: the group becomes zeros
  constexpr int64_t kHalf = GroupedRows::kGroup / 2;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* const from = x.data + row * x.stride;
  auto* const q = static_cast<Number*>(to.numbers) + row * to.cols;
  float* const scales = to.scales + row * to.groups();
  float* const shifts = to.shifts + row * to.groups();
  int32_t* const sums = to.sums + row * 2 * to.groups();
  for (int64_t g = 0; g < to.groups(); ++g) {
    const int64_t first = g * GroupedRows::kGroup;
    auto largest = hn::Zero(d), flaw = hn::Zero(d);
    for (int64_t i = 0; i < GroupedRows::kGroup; i += lanes) {
      const auto v = hn::LoadU(d, from + first + i);
      largest = hn::Max(largest, hn::Abs(v));
      flaw = hn::Add(flaw, hn::Sub(v, v));  // NaN if v is not finite
    }
    const float not_a_number = hn::GetLane(hn::SumOfLanes(d, flaw));
    if (not_a_number != 0) {  // a NaN or an infinity among the inputs must not become a finite number
      std::fill_n(q + first, GroupedRows::kGroup, Number{0});
      sums[2 * g] = sums[2 * g + 1] = 0;
      scales[g] = shifts[g] = not_a_number;
      continue;
    }
    const float range = hn::GetLane(hn::MaxOfLanes(d, largest));
    const bool usable = range > kSmallest;
    const auto factor = hn::Set(d, usable ? kSteps / range : 0.0f);
    for (int64_t half = 0; half < 2; ++half) {
      auto sum = hn::Zero(whole);
      for (int64_t i = first + half * kHalf; i < first + (half + 1) * kHalf; i += lanes) {
        const auto steps = hn::NearestInt(hn::Mul(hn::LoadU(d, from + i), factor));
        sum = hn::Add(sum, steps);
        hn::StoreU(hn::DemoteTo(numbers, steps), numbers, q + i);
      }
      sums[2 * g + half] = hn::GetLane(hn::SumOfLanes(whole, sum));
    }
    scales[g] = usable ? range / kSteps : 0.0f;
    shifts[g] = scales[g] * static_cast<float>(sums[2 * g] + sums[2 * g + 1]);
  }
}

void quantize_row(const F32Matrix& x, int64_t row, const GroupedRows& to) {
  to.words ? quantize<int16_t>(x, row, to) : quantize<int8_t>(x, row, to);
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels {
namespace {

HWY_EXPORT(quantize_row);

constexpr int64_t kPiece = 65536;  // numbers

template <class T>
T* take(std::byte*& at, int64_t count) {
  auto* const taken = reinterpret_cast<T*>(at);
  at += static_cast<size_t>(count) * sizeof(T);
  return taken;
}

}  // namespace

GroupedRows quantize_by_groups(const F32Matrix& a, bool words) {
  const MemoryScope scope(MemoryUse::scratch);
  GroupedRows rows;
  rows.words = words;
  rows.cols = a.cols;
  const int64_t numbers = a.rows * a.cols, groups = a.rows * rows.groups();
  const size_t number_bytes = words ? sizeof(int16_t) : sizeof(int8_t);
  const size_t group_bytes = 2 * sizeof(float) + 2 * sizeof(int32_t);
  rows.memory =
      allocate(static_cast<size_t>(numbers) * number_bytes + static_cast<size_t>(groups) * group_bytes);
  std::byte* at = rows.memory.get();
  rows.scales = take<float>(at, groups);
  rows.shifts = take<float>(at, groups);
  rows.sums = take<int32_t>(at, 2 * groups);
  rows.numbers = at;
  parallel_for(a.rows, std::max<int64_t>(1, kPiece / std::max<int64_t>(a.cols, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) HWY_DYNAMIC_DISPATCH(quantize_row)(a, row, rows);
               });
  return rows;
}

}  // namespace qkv::kernels
#endif  // HWY_ONCE
