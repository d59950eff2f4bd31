#pragma once
// The encoder-decoder Transformer (Vaswani et al. 2017), from token ids to logits.

#include <optional>

#include "qkv/models/config.h"
#include "qkv/nn/embedding.h"

namespace qkv::models {

// Parameters are named as in Hugging Face's Marian: "model.shared.weight",
// "model.encoder.layers.0.self_attn.q_proj.weight". Const once they have values: safe to run from several
// threads, each with its own ForwardContext and DecoderState.
class Transformer {
 public:
  // The parameters have no values yet; use nn::initialise(model, seed), or load_transformer()
  // (qkv/models/hub/pretrained.h).
  explicit Transformer(const TransformerConfig& config);

  const TransformerConfig& config() const { return config_; }

  // source: ids i32 [tokens] -> [tokens, d_model].
  nn::Memory encode(const Ragged& source, nn::ForwardContext& context) const;
  // target: ids i32 [tokens], each sequence starting with decoder_start_id -> hidden states [tokens,
  // d_model], scaled if the configuration has scale_output.
  Variable decode(const Ragged& target, const nn::Memory& memory, nn::ForwardContext& context) const;
  // Projects decode()'s result to logits, with linear() or linear_cross_entropy().
  const LinearWeights& output_projection() const { return output_; }

  // Step-by-step decoding. `start` begins sentences with one hypothesis each and keeps keys and values as f32
  // or bf16; `step` takes the last token of each hypothesis, i32 [rows], and returns the logits of the next,
  // [rows, vocabulary].
  nn::DecoderState start(const nn::Memory& memory, DType cache_dtype = DType::f32) const;
  Tensor step(const Tensor& ids, nn::DecoderState& state) const { return step(ids, state, output_); }
  // Likewise with another projection, such as selected rows of the model's own.
  Tensor step(const Tensor& ids, nn::DecoderState& state, const LinearWeights& output) const;

  void visit(const nn::ParameterVisitor& visitor) const;

 private:
  // Scales hidden states for the output projection.
  Variable to_project(const Variable& hidden) const;
  const nn::Parameter& source_table() const;
  const nn::Parameter& output_table() const;

  TransformerConfig config_;
  nn::Parameter target_table_, source_table_, output_table_;  // the latter two only if not shared
  nn::Parameter final_logits_bias_;                           // [1, target_vocabulary], if any
  nn::Embedding source_embedding_, target_embedding_;
  nn::Encoder encoder_;
  nn::Decoder decoder_;
  LinearWeights output_;
};

}  // namespace qkv::models
