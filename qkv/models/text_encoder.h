#pragma once
// Encoder-only models and their heads (Devlin et al. 2019): masked-token prediction, classification of texts
// and tokens, text embeddings. With causal attention the stack of a language model is one too (Muennighoff
// 2022, "SGPT").

#include <optional>
#include <string>
#include <vector>

#include "qkv/models/problem_type.h"
#include "qkv/nn/embedding.h"
#include "qkv/nn/encoder.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/logits.h"

namespace qkv::models {

// The unit that a classifier labels. Spans (Devlin et al. 2019, section 4.2): each token has two logits, of
// being the first and the last of an answer.
enum class ClassificationTarget { nothing, texts, tokens, spans };
// Whether a classifier's outputs are labels with names.
constexpr bool has_labels(ClassificationTarget target) {
  return target == ClassificationTarget::texts || target == ClassificationTarget::tokens;
}

// The row of a text that the pooler reads.
enum class PooledRow : uint8_t { first, mean, last };

struct TextEncoderConfig {
  int64_t vocabulary = 0;
  std::optional<int64_t> max_positions = {};  // maximum length of a text; nothing: unlimited
  nn::EmbeddingConfig embedding = {};
  nn::StackOptions encoder = {};
  bool causal = false;  // a token attends to itself and earlier ones only
  // Has a pooler: a linear layer, an activation and perhaps a norm, of one row of a text; of each token where
  // tokens or spans are labelled.
  bool pooler = false;
  Activation pooler_activation = Activation::tanh;
  bool pooler_norm = false;
  PooledRow pooled_row = PooledRow::first;
  int64_t pooler_width = 0;  // of its result; 0: d_model
  bool head_bias = true;     // of the linear layers of the pooler and of the masked-language head
  bool logit_bias = true;    // of masked-language logits
  // Predicts the token at each position; tied to the embedding table.
  bool masked_language = false;
  Activation masked_language_activation = Activation::gelu_exact;
  bool next_sentence = false;  // predicts whether the second part follows the first; needs the pooler
  // Labelling texts needs the pooler, or causal attention: the last token's hidden state is then classified.
  ClassificationTarget labelled = ClassificationTarget::nothing;
  std::vector<std::string> labels = {};             // of texts and tokens; spans have none
  ProblemType problem = ProblemType::single_label;  // of text labels
  // A text ends with the first token of this id, and has one (CLIP). Nothing: it ends with its last token.
  std::optional<int32_t> end_id = {};
  bool padded = false;  // texts are read with pad tokens up to max_positions (SigLIP)
  // Of a causal model that labels texts: ids after which no other id follows are not part of the text. At
  // most one.
  std::vector<int32_t> pad_ids = {};

  // Features of a pooled text.
  int64_t pooled_width() const { return pooler_width > 0 ? pooler_width : encoder.d_model(); }
  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// Const once its parameters have values, like LanguageModel.
class TextEncoder {
 public:
  explicit TextEncoder(const TextEncoderConfig& config);

  const TextEncoderConfig& config() const { return config_; }

  // ids i32 or i64 [tokens] -> hidden states [tokens, d_model]. `types` i32 or i64 [tokens], for pairs of
  // texts: 0 in the first, 1 in the second; undefined: all 0. `positions` i32 [tokens]; undefined: 0, 1, ...
  // in each sequence. Throws UsageError for a sequence longer than max_positions or a position beyond,
  // DataError for an id or type out of range.
  Variable operator()(const Ragged& ids, nn::ForwardContext& context, const Tensor& types = {},
                      const Tensor& positions = {}) const;

  // The heads take hidden states. Throws UsageError if the model lacks the head.
  Variable pooled(const Variable& hidden, const Offsets& offsets) const;  // -> [texts, pooled_width()]
  Variable masked_language_logits(
      const Variable& hidden) const;  // [tokens, d_model] -> logits [tokens, vocabulary]
  // The loss of labels i32 [tokens].
  CrossEntropyResult masked_language_loss(const Variable& hidden, const Tensor& labels,
                                          const CrossEntropyOptions& options) const;
  Variable next_sentence(const Variable& hidden, const Offsets& offsets) const;  // -> logits [texts, 2]
  // -> logits [texts, labels], [tokens, labels] or, of spans, [tokens, 2]
  Variable classifier_logits(const Variable& hidden, const Offsets& offsets) const;
  // The same in training: with dropout of the classifier's input, at the rate of the embeddings.
  Variable classifier_logits(const Variable& hidden, const Offsets& offsets,
                             nn::ForwardContext& context) const;

  // "embed_tokens.weight", "encoder.layers.0.fc1.bias", "pooler.weight", "masked_language.dense.weight".
  void visit(const nn::ParameterVisitor& visitor) const;

 private:
  // The input of the classifier.
  Variable classified_hidden(const Variable& hidden, const Offsets& offsets, const kernels::Dropout& dropout,
                             const nn::ForwardContext& context) const;
  // The rows of texts that the pooler reads, and its result.
  Variable text_rows(const Variable& hidden, const Offsets& offsets) const;
  Variable pooled_rows(const Variable& rows, const kernels::Dropout& dropout,
                       const nn::ForwardContext& context) const;
  [[noreturn]] void refuse(const char* head) const;

  TextEncoderConfig config_;
  nn::Parameter table_;
  nn::Embedding embedding_;
  nn::Encoder encoder_;
  std::optional<nn::Linear> pooler_, next_sentence_, classifier_;
  std::optional<nn::Norm> pooler_norm_;
  std::optional<nn::Logits> masked_language_;
};

}  // namespace qkv::models
