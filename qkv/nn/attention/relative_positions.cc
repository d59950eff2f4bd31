#include "qkv/nn/attention/relative_positions.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "qkv/base/error.h"
#include "qkv/ops/general/slice.h"
#include "qkv/ops/relative_position_bias.h"

namespace qkv::nn {
namespace {

// Buckets on one side of the query.
int64_t buckets_of_a_side(const PositionOptions& options, Direction direction) {
  return direction == Direction::both ? options.buckets / 2 : options.buckets;
}

const PositionOptions& checked(const PositionOptions& options, Direction direction) {
  if (options.buckets < 4 || options.buckets % 2 != 0) {
    throw UsageError(
        concat("positions: expected an even number of buckets, at least 4, found ", options.buckets));
  }
  const int64_t exact = buckets_of_a_side(options, direction) / 2;
  if (options.max_distance <= exact) {
    throw UsageError(concat("positions: expected a max_distance above ", exact, ", as ", options.buckets,
                            " buckets have one for each distance below that, found ", options.max_distance));
  }
  return options;
}

const PositionOptions& checked_distances(const PositionOptions& options) {
  constexpr int64_t kMostBuckets = 1 << 20;
  if (options.buckets < 1 || options.buckets > kMostBuckets)
    throw UsageError(concat("positions: expected 1 to ", kMostBuckets, " buckets, found ", options.buckets));
  if (options.max_distance != 0 && (options.buckets < 2 || options.max_distance <= options.buckets / 2 + 1))
    throw UsageError(concat(
        "positions: expected a max_distance of 0, or of 2 buckets or more above half of them and 1, found ",
        options.max_distance, " and ", options.buckets, " buckets"));
  return options;
}

}  // namespace

int64_t relative_bucket(int64_t distance, const PositionOptions& options, Direction direction) {
  checked(options, direction);
  distance = std::max(distance, -INT64_MAX);
  const int64_t buckets = buckets_of_a_side(options, direction), exact = buckets / 2;
  const int64_t first = direction == Direction::both && distance > 0 ? buckets : 0;
  const int64_t away = direction == Direction::both ? std::abs(distance) : std::max<int64_t>(0, -distance);
  if (away < exact) return first + away;
  const float relation =
      std::log(static_cast<float>(away) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(options.max_distance) / static_cast<double>(exact)));
  const auto wider = static_cast<int64_t>(relation * static_cast<float>(buckets - exact));
  return first + std::min(exact + wider, buckets - 1);
}

RelativePositions::RelativePositions(const PositionOptions& options, int64_t heads, Direction direction)
    : options_(checked(options, direction)),
      direction_(direction),
      weight_(Shape{options.buckets, heads}, {Initializer::Kind::normal, 0.1f}) {}

Variable RelativePositions::operator()(int64_t n) const {
  if (n < 0 || n > INT32_MAX)
    throw UsageError(concat("positions: expected a length from 0 to 2^31 - 1, found ", n));
  const int64_t longest = std::max<int64_t>(n, 1);
  Tensor bucket_of = Tensor::empty({2 * longest - 1}, DType::i32);
  for (int64_t j = 0; j < 2 * longest - 1; ++j) {
    bucket_of.data<int32_t>()[j] =
        static_cast<int32_t>(relative_bucket(j - (longest - 1), options_, direction_));
  }
  return relative_position_bias(weight_.variable, bucket_of);
}

void RelativePositions::visit(const ParameterVisitor& visitor) const { visitor("weight", weight_); }

int64_t distance_row(int64_t distance, const PositionOptions& options) {
  const int64_t buckets = options.buckets, exact = buckets / 2;
  int64_t bucket = std::clamp(distance, -2 * buckets, 2 * buckets);
  if (options.max_distance > 0 && std::abs(std::max(distance, -INT64_MAX)) > exact) {
    const auto away = static_cast<float>(std::abs(std::max(distance, -INT64_MAX))),
               near = static_cast<float>(exact);
    const float relation =
        std::log(away / near) / std::log(static_cast<float>(static_cast<double>(options.max_distance - 1) /
                                                            static_cast<double>(exact)));
    const float wider =
        std::min(std::ceil(relation * static_cast<float>(exact - 1)), static_cast<float>(buckets));
    bucket = static_cast<int64_t>(wider) + exact;
    if (distance < 0) bucket = -bucket;
  }
  return std::clamp<int64_t>(bucket + buckets, 0, 2 * buckets - 1);
}

DistanceVectors::DistanceVectors(const PositionOptions& options, const NormOptions& norm)
    : options_(checked_distances(options)),
      weight_(Shape{2 * options.buckets, norm.features}, {Initializer::Kind::normal, 0.02f}) {
  if (options.distance_norm) norm_.emplace(norm);
}

DistanceRows DistanceVectors::operator()(int64_t n) const {
  const int64_t longest = std::max<int64_t>(n, 1);
  Tensor of_keys = Tensor::empty({2 * longest - 1}, DType::i32), of_queries = empty_like(of_keys);
  for (int64_t r = 0; r < 2 * longest - 1; ++r) {
    of_keys.data<int32_t>()[r] = static_cast<int32_t>(distance_row(longest - 1 - r, options_));
    of_queries.data<int32_t>()[r] = static_cast<int32_t>(distance_row(r - (longest - 1), options_));
  }
  const Variable vectors = norm_ ? (*norm_)(weight_.variable) : weight_.variable;
  return {gather(vectors, of_keys), gather(vectors, of_queries)};
}

void DistanceVectors::visit(const ParameterVisitor& visitor) const {
  visitor("weight", weight_);
  if (norm_) visit_part(visitor, "norm", *norm_);
}

}  // namespace qkv::nn
