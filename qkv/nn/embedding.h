#pragma once

#include <optional>

#include "qkv/nn/forward_context.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/norm.h"
#include "qkv/nn/parameter.h"
#include "qkv/nn/positions.h"

namespace qkv::nn {

struct EmbeddingConfig {
  int64_t d_model = 0;
  float factor = 1;  // of the token embeddings: sqrt(d_model) in Vaswani et al. 2017, section 3.4
  PositionOptions positions = {.kind = PositionKind::sinusoidal_interleaved};  // the positions to add
  // Number of token types, each with an embedding that is added (Devlin et al. 2019); 0: none.
  int64_t token_types = 0;
  bool norm = false;  // norm of the sum
  NormKind norm_kind = NormKind::layer;
  bool norm_weight = true, norm_bias = true;
  float epsilon = 1e-5f;  // of the norm
  float dropout = 0;      // of the result
  int64_t width = 0;      // of the tables, if not d_model: the result is projected (ELECTRA)

  int64_t table_width() const { return width > 0 ? width : d_model; }
};

// Optional inputs besides the ids.
struct TokenPlaces {
  Tensor positions = {};  // i32 [tokens]; undefined: 0, 1, ... in each sequence
  Tensor types = {};      // i32 or i64 [tokens], below token_types; undefined: all 0
  // f32 [rows, d_model]: in the place of the embeddings of ids below 0, in order (images). Inference only.
  Tensor rows = {};
};

// Token embeddings, multiplied by the factor, plus positions and token types, normalised. The table belongs
// to the model, because source, target and output projection may share it.
class Embedding {
 public:
  // table [vocabulary, table_width()], in any weight dtype.
  Embedding(const EmbeddingConfig& config, Weight table);

  // ids i32 or i64 [tokens] -> [tokens, d_model]. Throws UsageError for a learned position beyond the table,
  // and for rows where positions or types are added, a norm or projection follows, or in training; ShapeError
  // unless there is a row for each id below 0; DataError for an id or type out of range.
  Variable operator()(const Ragged& ids, ForwardContext& context, const TokenPlaces& places = {}) const;
  // "embed_positions.weight", "embed_types.weight", "embed_layer_norm.weight" and ".bias",
  // "embed_projection.weight" and ".bias"
  void visit(const ParameterVisitor& visitor) const;

 private:
  Variable sum(const Ragged& given, ForwardContext& context, const TokenPlaces& places) const;
  Variable with_rows(const Ragged& ids, ForwardContext& context, const Tensor& rows) const;

  EmbeddingConfig config_;
  Weight table_;
  Parameter positions_, types_;
  std::optional<Norm> norm_;
  std::optional<Linear> projection_;
};

}  // namespace qkv::nn
