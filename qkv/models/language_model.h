#pragma once
// A decoder-only language model: token ids to next-token logits (Radford et al. 2018).

#include <optional>
#include <vector>

#include "qkv/nn/decoder.h"
#include "qkv/nn/embedding.h"
#include "qkv/nn/logits.h"

namespace qkv::models {

struct LanguageModelConfig {
  int64_t vocabulary = 0;
  int64_t max_positions = 1024;  // maximum length of a text
  nn::EmbeddingConfig embedding = {};
  nn::StackOptions decoder = {};
  bool causal = true;       // a token attends to itself and earlier ones only; else it is an encoder's stack
  bool tied = true;         // embedding table and output projection are tied
  bool logit_bias = false;  // nn::LogitsOptions::bias, scale, softcap and layer
  float logit_scale = 1, logit_softcap = 0;
  std::optional<nn::LogitsLayer> logit_layer = {};  // of width 0
  std::vector<int32_t> bos_ids = {};                // start tokens; the first is used
  std::vector<int32_t> eos_ids = {};                // end tokens

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// Rows in the place of tokens' embeddings, such as those of images (LLaVA, Liu et al. 2023). Ids below 0
// stand for them, in order; equal ids mean equal rows.
struct EmbeddedRows {
  Tensor values = {};  // f32 [rows, d_model]; undefined: none
  // Whether rows side by side, which are an image's, attend to each other in both directions (Gemma 3).
  bool both_directions = false;

  int64_t count() const { return values.defined() ? values.rows() : 0; }
};

// Const once its parameters have values: safe to run from several threads, each with its own ForwardContext
// and DecoderState.
class LanguageModel {
 public:
  // The parameters have no values yet; use nn::initialise(model, seed), or load_language_model()
  // (qkv/models/hub/pretrained.h).
  explicit LanguageModel(const LanguageModelConfig& config);

  const LanguageModelConfig& config() const { return config_; }

  // ids i32 or i64 [tokens] -> hidden states [tokens, d_model]; causal. Throws UsageError for a sequence
  // longer than max_positions, DataError for an id outside the vocabulary; so do start() and step().
  Variable operator()(const Ragged& ids, nn::ForwardContext& context) const;
  const nn::Logits& logits() const { return logits_; }  // of the next token, from hidden states

  // Generation. `start` reads the beginnings of sequences (such as a prompt without its last token; may be
  // empty) and keeps keys and values as f32 or bf16; `read` reads the next tokens of each; `step` reads one
  // more token of each row, i32 [rows], and returns the logits of the next, [rows, vocabulary]. The division
  // of a prompt into reads does not affect the bits. `rows`: those of the ids below 0; if they attend in both
  // directions, all that is read attends to all of its sequence, so that an image is a read of its own.
  nn::DecoderState start(const Ragged& beginnings, DType cache_dtype = DType::f32) const;
  void read(const Ragged& ids, nn::DecoderState& state, const EmbeddedRows& rows = {}) const;
  Tensor step(const Tensor& ids, nn::DecoderState& state) const;

  // "embed_tokens.weight", "decoder.layers.0.self_attn.q_proj.weight", "lm_head.weight".
  void visit(const nn::ParameterVisitor& visitor) const;

 private:
  void require_positions(int64_t tokens) const;

  LanguageModelConfig config_;
  nn::Parameter table_;
  nn::Embedding embedding_;
  nn::Decoder decoder_;
  nn::Logits logits_;
};

}  // namespace qkv::models
