// Writes the weights of captured rows (AttentionCapture), one tile of keys at a time. Included once per
// Highway target.

#if defined(QKV_KERNELS_CPU_ATTENTION_CAPTURE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_CPU_ATTENTION_CAPTURE_INL_H_
#undef QKV_KERNELS_CPU_ATTENTION_CAPTURE_INL_H_
#else
#define QKV_KERNELS_CPU_ATTENTION_CAPTURE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "qkv/kernels/backend/attention.h"
#include "qkv/kernels/cpu/attention/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

// `number`: the row number of AttentionCapture; `sums`: a vector per row, used by add() between begin() and
// end().
class CaptureWriter {
 public:
  explicit CaptureWriter(const AttentionCapture& capture) : to_(capture) {}

  bool wanted() const { return to_.offsets != nullptr || to_.entropy != nullptr || to_.top > 0; }
  bool wants(int64_t number) const {
    return to_.entropy != nullptr || to_.top > 0 || (to_.offsets != nullptr && to_.offsets[number] >= 0);
  }

  // Only the first `limit` keys of the sequence are visible; the others have weight 0.
  void begin(int64_t number, int64_t limit, int64_t keys, float* sums) const {
    if (to_.offsets != nullptr && to_.offsets[number] >= 0) {
      if (to_.weights != nullptr) std::fill_n(to_.weights + to_.offsets[number] + limit, keys - limit, 0.0f);
      if (to_.scores != nullptr)
        std::fill_n(to_.scores + to_.offsets[number] + limit, keys - limit, kMinusInfinity);
    }
    if (to_.top > 0) {
      std::fill_n(to_.top_weights + number * to_.top, to_.top, 0.0f);
      std::fill_n(to_.top_keys + number * to_.top, to_.top, -1);
    }
    hn::Store(hn::Zero(d_), d_, sums);
  }

  // Converts the scores of the keys [key, key + seen) to weights, and records the requested outputs. total:
  // the row's sum of exp(score - largest).
  void add(int64_t number, int64_t key, int64_t seen, float largest, float total, float* HWY_RESTRICT scores,
           float* HWY_RESTRICT sums) const {
    const auto shift = shift_of(d_, hn::Set(d_, largest)), zero = hn::Zero(d_);
    const auto factor = hn::Set(d_, total == 0 ? 0.0f : 1.0f / total);
    const auto log_total = logarithm(d_, hn::Set(d_, total));
    auto entropy = hn::Load(d_, sums);
    const bool written = to_.offsets != nullptr && to_.offsets[number] >= 0;
    for_vectors(d_, seen, [&](auto part, int64_t j) HWY_ATTR {
      if (written && to_.scores != nullptr) {
        store(d_, hn::Load(d_, scores + j), to_.scores + to_.offsets[number] + key + j, part);
      }
      const auto x = hn::Sub(hn::Load(d_, scores + j), shift);
      const auto p = zero_rest(d_, hn::Mul(exponential_of_difference(d_, x), factor), part);
      // -p log(p) = p (log(total) - x); 0 where p is 0, although the logarithm is infinite.
      const auto term = hn::Mul(p, hn::Sub(log_total, x));
      entropy = hn::Add(entropy, hn::IfThenZeroElse(hn::Eq(p, zero), term));
      hn::Store(p, d_, scores + j);
      if (written && to_.weights != nullptr) {
        store(d_, p, to_.weights + to_.offsets[number] + key + j, part);
      }
    });
    hn::Store(entropy, d_, sums);
    if (to_.top == 0) return;
    float* const top = to_.top_weights + number * to_.top;
    int32_t* const keys = to_.top_keys + number * to_.top;
    for (int64_t j = 0; j < seen; ++j) {
      if (!(scores[j] > top[to_.top - 1])) continue;
      int64_t place = to_.top - 1;
      for (; place > 0 && scores[j] > top[place - 1]; --place) {
        top[place] = top[place - 1];
        keys[place] = keys[place - 1];
      }
      top[place] = scores[j];
      keys[place] = static_cast<int32_t>(key + j);
    }
  }

  void end(int64_t number, const float* sums) const {
    if (to_.entropy != nullptr) to_.entropy[number] = hn::GetLane(hn::SumOfLanes(d_, hn::Load(d_, sums)));
  }

 private:
  const Floats d_;
  const AttentionCapture& to_;
};

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
