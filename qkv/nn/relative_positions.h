#pragma once
// Relative positions (Raffel et al. 2020, section 2.1): a learned number for each head and each bucket of
// distances, which the self-attention of every layer of a stack adds to its scores.

#include "qkv/nn/parameter.h"
#include "qkv/nn/positions.h"

namespace qkv::nn {

// Which keys there are to attend to.
enum class Direction {
  both,       // an encoder's: half of the buckets are for keys behind the query
  backwards,  // a decoder's: none is
};

// The bucket of a key that lies `distance` positions behind the query (in front of it: distance < 0), as
// PositionOptions::buckets describes them. It is computed in single precision, as the models were trained.
int64_t relative_bucket(int64_t distance, const PositionOptions& options, Direction direction);

class RelativePositions {
 public:
  // `options.kind` is relative. Throws UsageError for fewer than 4 buckets, an odd number of them, and a
  // max_distance within the distances that have a bucket each.
  RelativePositions(const PositionOptions& options, int64_t heads, Direction direction);

  // What attention's relative_bias takes for sequences of at most n positions: [heads, 2 n - 1].
  Variable operator()(int64_t n) const;
  void visit(const ParameterVisitor& visitor) const;  // "weight", [buckets, heads]

 private:
  PositionOptions options_;
  Direction direction_;
  Parameter weight_;
};

}  // namespace qkv::nn
