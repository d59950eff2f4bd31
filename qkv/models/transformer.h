#pragma once
// The encoder-decoder Transformer (Vaswani et al. 2017), from token numbers to logits.

#include <optional>

#include "qkv/models/config.h"
#include "qkv/nn/embedding.h"

namespace qkv::models {

// Parameters are named as in Hugging Face's Marian: "model.shared.weight",
// "model.encoder.layers.0.self_attn.q_proj.weight". Const after it has its numbers: any number of threads may
// run one model, each with its own Pass and DecoderState.
class Transformer {
 public:
  // The parameters have no numbers yet: nn::initialise(model, seed), or load_transformer()
  // (qkv/models/hub/pretrained.h).
  explicit Transformer(const TransformerConfig& config);

  const TransformerConfig& config() const { return config_; }

  // source: ids i32 [tokens] -> [tokens, d_model].
  nn::Memory encode(const Ragged& source, nn::ForwardContext& context) const;
  // target: ids i32 [tokens], each sequence beginning with decoder_start_id -> hidden states [tokens,
  // d_model], scaled where the configuration says scale_output.
  Variable decode(const Ragged& target, const nn::Memory& memory, nn::ForwardContext& context) const;
  // What decode() gives to logits: what linear() and linear_cross_entropy() take.
  const LinearWeights& output_projection() const { return output_; }

  // Decoding, position by position. `start` is for new sentences, one hypothesis each, whose keys and values
  // are kept as f32 or bf16; `step` takes the last
  // token of each hypothesis, i32 [rows], and gives the logits of the next one, [rows, vocabulary].
  nn::DecoderState start(const nn::Memory& memory, DType cache_dtype = DType::f32) const;
  Tensor step(const Tensor& ids, nn::DecoderState& state) const { return step(ids, state, output_); }
  // The same with another projection, such as some rows of the model's own.
  Tensor step(const Tensor& ids, nn::DecoderState& state, const LinearWeights& output) const;

  void visit(const nn::ParameterVisitor& visitor) const;

 private:
  // Hidden states as the output projection takes them.
  Variable to_project(const Variable& hidden) const;
  const nn::Parameter& source_table() const;
  const nn::Parameter& output_table() const;

  TransformerConfig config_;
  nn::Parameter target_table_, source_table_, output_table_;  // the latter two only where they are not shared
  nn::Parameter final_logits_bias_;                           // [1, target_vocabulary], if there is one
  nn::Embedding source_embedding_, target_embedding_;
  nn::Encoder encoder_;
  nn::Decoder decoder_;
  LinearWeights output_;
};

}  // namespace qkv::models
