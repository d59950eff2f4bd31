#pragma once
// The encoder-decoder Transformer (Vaswani et al. 2017), from token ids to logits.

#include <memory>
#include <optional>

#include "qkv/models/config.h"
#include "qkv/nn/embedding.h"
#include "qkv/nn/logits.h"

namespace qkv::models {

class AudioStem;  // audio_stem.h

// Parameters are named as in Hugging Face's Marian: "model.shared.weight",
// "model.encoder.layers.0.self_attn.q_proj.weight". Const once they have values: safe to run from several
// threads, each with its own ForwardContext and DecoderState.
class Transformer {
 public:
  // The parameters have no values yet; use nn::initialise(model, seed), or load_transformer()
  // (qkv/models/hub/pretrained.h).
  explicit Transformer(const TransformerConfig& config);

  const TransformerConfig& config() const { return config_; }

  // source: ids i32 or i64 [tokens] -> [tokens, d_model]. Throws UsageError for a model that reads audio; the
  // next one, for a model that does not.
  nn::Memory encode(const Ragged& source, nn::ForwardContext& context) const;
  // frames f32 [frames, mel_bins], on the host -> [frames / 2, d_model]. Throws the errors of AudioStem.
  nn::Memory encode_audio(const Tensor& frames, const Offsets& offsets, nn::ForwardContext& context) const;
  // target: ids i32 or i64 [tokens], each sequence starting with decoder_start_id -> hidden states [tokens,
  // d_model].
  Variable decode(const Ragged& target, const nn::Memory& memory, nn::ForwardContext& context) const;
  const nn::Logits& logits() const { return logits_; }  // of the next token, from decode()'s result

  // Step-by-step decoding. `start` begins sentences with one hypothesis each and keeps keys and values as f32
  // or bf16; `step` takes the last token of each hypothesis, i32 [rows], and returns the logits of the next,
  // [rows, vocabulary].
  nn::DecoderState start(const nn::Memory& memory, DType cache_dtype = DType::f32) const;
  Tensor step(const Tensor& ids, nn::DecoderState& state) const { return step(ids, state, logits_); }
  // Likewise of selected tokens: `logits` is logits().select(tokens).
  Tensor step(const Tensor& ids, nn::DecoderState& state, const nn::Logits& logits) const;

  void visit(const nn::ParameterVisitor& visitor) const;

 private:
  const nn::Parameter& source_table() const;

  TransformerConfig config_;
  nn::Parameter target_table_, source_table_;      // the latter only of tokens, if not shared
  std::optional<nn::Embedding> source_embedding_;  // one of the two
  std::shared_ptr<const AudioStem> audio_stem_;
  nn::Embedding target_embedding_;
  nn::Encoder encoder_;
  nn::Decoder decoder_;
  nn::Logits logits_;
};

}  // namespace qkv::models
