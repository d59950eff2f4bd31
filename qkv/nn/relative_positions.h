#pragma once
// Relative position biases (Raffel et al. 2020, section 2.1): a learned number for each head and bucket of
// distances, added to the self-attention scores of all layers of a stack.

#include "qkv/nn/parameter.h"
#include "qkv/nn/positions.h"

namespace qkv::nn {

// The keys that exist around a query.
enum class Direction {
  both,       // encoder: half of the buckets are for keys after the query
  backwards,  // decoder: all buckets are for keys before the query
};

// The bucket of a key `distance` positions before the query (after it: distance < 0), as described in
// PositionOptions::buckets. Computed in single precision, as the models were trained.
int64_t relative_bucket(int64_t distance, const PositionOptions& options, Direction direction);

class RelativePositions {
 public:
  // `options.kind` must be relative. Throws UsageError for fewer than 4 buckets, an odd number of buckets,
  // and a max_distance within the range of single-distance buckets.
  RelativePositions(const PositionOptions& options, int64_t heads, Direction direction);

  // The relative_bias of attention for sequences of at most n positions: [heads, 2 n - 1].
  Variable operator()(int64_t n) const;
  void visit(const ParameterVisitor& visitor) const;  // "weight", [buckets, heads]

 private:
  PositionOptions options_;
  Direction direction_;
  Parameter weight_;
};

}  // namespace qkv::nn
