#include "qkv/ops/relative_position_bias.h"

#include <algorithm>

#include "qkv/ops/profile.h"

namespace qkv {

Variable relative_position_bias(const Variable& table, const Tensor& bucket_of) {
  const ProfileScope profile("bias_by_distance");
  const Tensor& numbers = table.value();
  const int64_t distances = bucket_of.numel();
  if (numbers.rank() != 2 || !numbers.contiguous() || bucket_of.rank() != 1) {
    throw ShapeError(
        concat("bias_by_distance: expected a table [buckets, heads] and buckets [distances], found ",
               table.shape(), " and ", bucket_of.shape()));
  }
  const int64_t buckets = numbers.rows(), heads = numbers.cols();
  const int32_t* const bucket = bucket_of.data<int32_t>();
  if (std::any_of(bucket, bucket + distances, [&](int32_t b) { return b < 0 || b >= buckets; })) {
    throw ShapeError(concat("bias_by_distance: expected buckets below ", buckets, ", found others"));
  }
  Tensor y = Tensor::empty({heads, distances});
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t j = 0; j < distances; ++j) {
      y.data()[head * distances + j] = numbers.data()[bucket[j] * heads + head];
    }
  }
  if (!Tape::records({table})) return y;
  return Tape::record("bias_by_distance", y, [=](const Tensor& dy) {
    const GradientSlot slot = table.gradient_slot();
    if (slot.accumulate == Accumulate::no) slot.tensor.fill_zero();
    const int32_t* const to = bucket_of.data<int32_t>();
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t j = 0; j < distances; ++j) {
        slot.tensor.data()[to[j] * heads + head] += dy.data()[head * distances + j];
      }
    }
  });
}

}  // namespace qkv
