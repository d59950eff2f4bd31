#pragma once
// The probability of given texts.

#include "qkv/pipelines/open_model.h"

namespace qkv::pipelines {

struct ScoredText {
  std::vector<std::string> tokens;       // from the text's second token on
  std::vector<float> log_probabilities;  // log P(token | the tokens before it), natural logarithms
  double log_probability = 0;            // their sum
  double perplexity = 0;                 // exp of minus their mean; 0 where there are none
  std::string error;                     // why there is no result; empty: there is one
};

// A text as the model reads it.
struct ScoreRequest {
  std::vector<int32_t> ids;
  std::string error;  // why it cannot be scored
};

// Const: any number of threads may use one.
class TextScorer {
 public:
  explicit TextScorer(std::shared_ptr<const LoadedLanguageModel> model) : model_(std::move(model)) {}
  // Throws what open_language_model() throws.
  explicit TextScorer(const std::filesystem::path& folder, const models::LoadOptions& options = {})
      : model_(open_language_model(folder, options)) {}

  ScoreRequest prepare(const std::string& text) const;
  // log_probabilities: those that search::score() gives for request.ids.
  ScoredText finish(const ScoreRequest& request, std::vector<float> log_probabilities) const;

  // The probability of each text given its first token, which is the model's beginning of texts where the
  // tokenizer puts that in front. A text with an error leaves the others unharmed.
  std::vector<ScoredText> operator()(std::span<const std::string> texts, int64_t batch_tokens = 4096) const;

 private:
  std::shared_ptr<const LoadedLanguageModel> model_;
};

}  // namespace qkv::pipelines
