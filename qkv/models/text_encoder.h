#pragma once
// An encoder alone, and what its readings of a text are used for (Devlin et al. 2019): filling in words that
// are missing, judging whole texts or each of their tokens, standing for a text as a vector.

#include <optional>
#include <string>
#include <vector>

#include "qkv/models/problem_type.h"
#include "qkv/nn/embedding.h"
#include "qkv/nn/encoder.h"
#include "qkv/nn/linear.h"

namespace qkv::models {

// What labels are given to.
enum class ClassificationTarget { nothing, texts, tokens };

struct TextEncoderConfig {
  int64_t vocabulary = 0;
  std::optional<int64_t> max_positions = {};  // the most tokens of a text; nothing: any number
  nn::EmbeddingConfig embedding = {};
  nn::StackOptions encoder = {};
  bool pooler = false;  // a vector of the whole text, out of its first token's
  Activation pooler_activation = Activation::tanh;
  // Predicts the token at each position; the embedding table is the output projection.
  bool masked_language = false;
  Activation masked_language_activation = Activation::gelu_exact;
  bool next_sentence = false;  // whether one part of the text follows the other; needs the pooler
  ClassificationTarget labelled = ClassificationTarget::nothing;  // texts need the pooler
  std::vector<std::string> labels = {};
  ProblemType problem = ProblemType::single_label;  // of labels of texts

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// Const after it has its numbers, as LanguageModel.
class TextEncoder {
 public:
  explicit TextEncoder(const TextEncoderConfig& config);

  const TextEncoderConfig& config() const { return config_; }

  // ids i32 [tokens] -> hidden states [tokens, d_model]. `types` i32 [tokens], for texts of two parts: 0 for
  // the first, 1 for the second; undefined: all 0. Throws UsageError for a sequence longer than
  // max_positions, DataError for an id or a type that is none.
  Variable operator()(const Ragged& ids, nn::ForwardContext& context, const Tensor& types = {}) const;

  // These take hidden states, and throw UsageError where the model has no such head.
  Variable pooled(const Variable& hidden, const Offsets& offsets) const;  // -> [texts, d_model]
  Variable masked_language_logits(
      const Variable& hidden) const;  // [tokens, d_model] -> logits [tokens, vocabulary]
  Variable next_sentence(const Variable& hidden, const Offsets& offsets) const;  // -> logits [texts, 2]
  // -> logits [texts, labels] or [tokens, labels]
  Variable classifier_logits(const Variable& hidden, const Offsets& offsets) const;

  // "embed_tokens.weight", "encoder.layers.0.fc1.bias", "pooler.weight", "masked_language.dense.weight".
  void visit(const nn::ParameterVisitor& visitor) const;

 private:
  struct MaskedLanguage {
    nn::Linear dense;
    nn::Norm layer_norm;
    nn::Parameter bias;
    LinearWeights output;
  };
  [[noreturn]] void refuse(const char* head) const;

  TextEncoderConfig config_;
  nn::Parameter table_;
  nn::Embedding embedding_;
  nn::Encoder encoder_;
  std::optional<nn::Linear> pooler_, next_sentence_, classifier_;
  std::optional<MaskedLanguage> masked_language_;
};

}  // namespace qkv::models
