#include "qkv/ops/relative_position_bias.h"

#include <algorithm>

#include "qkv/kernels/embedding.h"
#include "qkv/kernels/pointwise.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/require.h"

namespace qkv {

Variable relative_position_bias(const Variable& table, const Tensor& buckets_of_any_width) {
  const ProfileScope profile("relative_position_bias");
  const Tensor& numbers = table.value();
  require_f32("relative_position_bias", numbers);
  const Tensor bucket_of = as_ids("relative_position_bias", "buckets", buckets_of_any_width);
  const int64_t distances = bucket_of.numel();
  if (numbers.rank() != 2 || !numbers.contiguous() || bucket_of.rank() != 1) {
    throw ShapeError(
        concat("relative_position_bias: expected a table [buckets, heads] and buckets [distances], found ",
               table.shape(), " and ", bucket_of.shape()));
  }
  const int64_t buckets = numbers.rows(), heads = numbers.cols();
  const Tensor host_buckets = to_host(bucket_of);
  const auto outside = [&](int32_t bucket) { return bucket < 0 || bucket >= buckets; };
  if (std::ranges::any_of(host_buckets.values<int32_t>(), outside)) {
    throw ShapeError(
        concat("relative_position_bias: expected buckets from 0 to ", buckets - 1, ", found one outside"));
  }
  const Tensor ids = from_host(bucket_of, numbers.device());
  Tensor rows = Tensor::empty({distances, heads}, DType::f32, numbers.device());
  kernels::embedding_forward({.table = numbers, .ids = ids, .y = rows});
  const Tensor y = kernels::transposed(rows);
  if (!Tape::records({table})) return y;
  return Tape::record("relative_position_bias", y, {{table, false}}, [=](const Tensor& dy) {
    GradientSlot slot = table.gradient_slot();
    if (slot.accumulate == Accumulate::no) slot.tensor.fill_zero();
    kernels::embedding_backward(kernels::transposed(dy), ids, 1.0f, {}, slot.tensor);
  });
}

}  // namespace qkv
