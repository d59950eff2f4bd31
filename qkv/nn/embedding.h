#pragma once

#include "qkv/nn/parameter.h"
#include "qkv/nn/pass.h"
#include "qkv/nn/positions.h"
#include "qkv/ops/functions.h"

namespace qkv::nn {

struct EmbeddingConfig {
  int64_t d_model = 0;
  bool scale = true;  // multiply by sqrt(d_model) (Vaswani et al. 2017, section 3.4)
  PositionKind positions = PositionKind::sinusoidal_interleaved;
  int64_t max_positions = 512;  // for learned ones; sinusoids grow on demand
  float dropout = 0;            // of the sum
};

// Token embeddings, scaled, plus positions. The table belongs to whoever shares it: the source's, the
// target's and the output projection's may be one.
class Embedding {
 public:
  Embedding(const EmbeddingConfig& config, Variable table);

  // ids i32 [tokens] -> [tokens, d_model]; the first token of each sequence stands at place `first_position`.
  // Throws UsageError for a place beyond max_positions where positions are learned.
  Variable operator()(const Ragged& ids, Pass& pass, int64_t first_position = 0) const;
  void visit(const ParameterVisitor& visitor) const;  // learned positions: "embed_positions.weight"

 private:
  Variable positions_for(int64_t count) const;

  EmbeddingConfig config_;
  Variable table_;
  Parameter positions_;
};

}  // namespace qkv::nn
