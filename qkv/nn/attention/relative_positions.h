#pragma once
// What a stack's self-attention learns of distances: relative position biases (Raffel et al. 2020, section
// 2.1), a number for each head and bucket of distances, added to the scores of all layers; or vectors of
// distances.

#include <optional>

#include "qkv/nn/attention/attention.h"
#include "qkv/nn/norm.h"
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

// The row of DistanceVectors, 0 to 2 buckets - 1, for a query `distance` positions after the key (before it:
// distance < 0), as described in PositionOptions. Computed in single precision, as the models were
// trained.
int64_t distance_row(int64_t distance, const PositionOptions& options);

// Vectors of distances (He et al. 2021, "DeBERTa", section 3.1; the buckets are those of its version 2),
// shared by all layers of a stack.
class DistanceVectors {
 public:
  // `options.kind` must be disentangled. Throws UsageError for buckets or a max_distance out of range.
  DistanceVectors(const PositionOptions& options, const NormOptions& norm);

  // For sequences of at most n positions: [2 n - 1, features].
  DistanceRows operator()(int64_t n) const;
  // "weight", [2 buckets, features], and "norm" if there is one.
  void visit(const ParameterVisitor& visitor) const;

 private:
  PositionOptions options_;
  Parameter weight_;
  std::optional<Norm> norm_;
};

}  // namespace qkv::nn
