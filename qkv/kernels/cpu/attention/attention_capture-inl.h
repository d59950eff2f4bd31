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

// `number`: the row number of AttentionCapture.
class CaptureWriter {
 public:
  explicit CaptureWriter(const AttentionCapture& capture) : to_(capture) {}

  bool wanted() const { return to_.offsets != nullptr || to_.top > 0; }

  // Only the first `limit` keys of the sequence are visible; the others have weight 0.
  void begin(int64_t number, int64_t limit, int64_t keys) const {
    if (float* const weights = row_of(to_.weights, number)) std::fill_n(weights + limit, keys - limit, 0.0f);
    if (float* const scores = row_of(to_.scores, number))
      std::fill_n(scores + limit, keys - limit, kMinusInfinity);
    if (to_.top > 0) {
      std::fill_n(to_.top_weights + number * to_.top, to_.top, 0.0f);
      std::fill_n(to_.top_keys + number * to_.top, to_.top, -1);
    }
  }

  // Converts the scores of the keys [key, key + seen) to weights, and records the requested outputs. total:
  // the row's sum of exp(score - largest).
  void add(int64_t number, int64_t key, int64_t seen, float largest, float total,
           float* HWY_RESTRICT scores) const {
    const auto shift = shift_of(d_, hn::Set(d_, largest));
    const auto factor = hn::Set(d_, total == 0 ? 0.0f : 1.0f / total);
    float* const all_weights = row_of(to_.weights, number);
    float* const all_scores = row_of(to_.scores, number);
    for_vectors(d_, seen, [&](auto part, int64_t j) HWY_ATTR {
      const auto score = hn::Load(d_, scores + j);
      if (all_scores != nullptr) store(d_, score, all_scores + key + j, part);
      const auto p =
          zero_rest(d_, hn::Mul(exponential_of_difference(d_, hn::Sub(score, shift)), factor), part);
      hn::Store(p, d_, scores + j);
      if (all_weights != nullptr) store(d_, p, all_weights + key + j, part);
    });
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

 private:
  // The values of a row in `all`, or null if they are not captured.
  float* row_of(float* all, int64_t number) const {
    return to_.offsets == nullptr || all == nullptr ? nullptr : all + to_.offsets[number];
  }

  const Floats d_;
  const AttentionCapture& to_;
};

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
