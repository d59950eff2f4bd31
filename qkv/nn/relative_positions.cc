#include "qkv/nn/relative_positions.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "qkv/base/error.h"
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

}  // namespace qkv::nn
