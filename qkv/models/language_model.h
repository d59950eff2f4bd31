#pragma once
// A decoder that reads nothing but text: token numbers to the logits of the next token (Radford et al. 2018).

#include <vector>

#include "qkv/nn/decoder.h"
#include "qkv/nn/embedding.h"

namespace qkv::models {

struct LanguageModelConfig {
  int64_t vocabulary = 0;
  int64_t max_positions = 1024;  // the most tokens of a text
  nn::EmbeddingConfig embedding = {};
  nn::StackOptions decoder = {};
  bool tied = true;                   // the output projection is the table of embeddings
  std::vector<int32_t> bos_ids = {};  // what a text may begin with; the first is used
  std::vector<int32_t> eos_ids = {};  // what may end it

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// Const after it has its numbers: any number of threads may run one model, each with its own ForwardContext
// and DecoderState.
class LanguageModel {
 public:
  // The parameters have no numbers yet: nn::initialise(model, seed), or load_language_model()
  // (qkv/models/hub/pretrained.h).
  explicit LanguageModel(const LanguageModelConfig& config);

  const LanguageModelConfig& config() const { return config_; }

  // ids i32 [tokens] -> hidden states [tokens, d_model], those at a token knowing of it and of the tokens
  // before it. Throws UsageError for a sequence longer than max_positions, DataError for an id outside the
  // vocabulary; so do start() and step().
  Variable operator()(const Ragged& ids, nn::ForwardContext& context) const;
  // Hidden states to logits: what linear() and linear_cross_entropy() take.
  const LinearWeights& output_projection() const { return output_; }

  // Generation: `start` reads the beginnings of sequences (all of a prompt but its last token, say; or
  // nothing), whose keys and values are kept as f32 or bf16; `read` reads the next tokens of each; `step`
  // reads one more token of each row, i32 [rows], and gives the logits of the next one, [rows, vocabulary].
  // How a beginning is cut into reads changes no bit.
  nn::DecoderState start(const Ragged& beginnings, DType cache_dtype = DType::f32) const;
  void read(const Ragged& ids, nn::DecoderState& state) const;
  Tensor step(const Tensor& ids, nn::DecoderState& state) const;

  // "embed_tokens.weight", "decoder.layers.0.self_attn.q_proj.weight", "lm_head.weight".
  void visit(const nn::ParameterVisitor& visitor) const;

 private:
  void require_positions(int64_t tokens) const;

  LanguageModelConfig config_;
  nn::Parameter table_, output_table_;  // the latter only where it is not the former
  nn::Embedding embedding_;
  nn::Decoder decoder_;
  LinearWeights output_;
};

}  // namespace qkv::models
