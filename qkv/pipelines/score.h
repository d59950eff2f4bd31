#pragma once
// Log-probability and perplexity of given texts.

#include <limits>

#include "qkv/pipelines/open_model.h"

namespace qkv::pipelines {

struct ScoredText {
  std::vector<std::string> tokens;       // from the second token on
  std::vector<float> log_probabilities;  // log P(token | preceding tokens), natural logarithms
  double log_probability = 0;            // their sum
  // exp(-mean of log_probabilities); NaN if there are none (an empty text or a single token)
  double perplexity = std::numeric_limits<double>::quiet_NaN();
  std::string error;  // why there is no result; empty on success
};

// The model's input.
struct ScoreRequest {
  std::vector<int32_t> ids;
  std::string error;  // why the text cannot be scored
};

// Const: safe to use from several threads.
class TextScorer {
 public:
  explicit TextScorer(std::shared_ptr<const LoadedLanguageModel> model) : model_(std::move(model)) {}
  // Throws the errors of open_language_model().
  explicit TextScorer(const std::filesystem::path& folder, const models::LoadOptions& options = {})
      : model_(open_language_model(folder, options)) {}

  ScoreRequest prepare(const std::string& text) const;
  // log_probabilities: from search::score() for request.ids.
  ScoredText finish(const ScoreRequest& request, std::vector<float> log_probabilities) const;

  // The probability of each text given its first token, which is the start token if the tokenizer adds one.
  // An error of one text does not affect the others.
  std::vector<ScoredText> operator()(std::span<const std::string> texts, int64_t batch_tokens = 4096) const;

 private:
  std::shared_ptr<const LoadedLanguageModel> model_;
};

}  // namespace qkv::pipelines
