#pragma once
// Log-probability and perplexity of given texts, and of given translations.

#include <limits>

#include "qkv/pipelines/open_model.h"

namespace qkv::pipelines {

struct ScoredText {
  std::vector<std::string> tokens;       // of a language model: from the second token on
  std::vector<float> log_probabilities;  // log P(token | preceding tokens, source), natural logarithms
  double log_probability = 0;            // their sum
  // exp(-mean of log_probabilities); NaN if there are none (an empty text or a single token)
  double perplexity = std::numeric_limits<double>::quiet_NaN();
  std::string error;  // why there is no result; empty on success
};

// The sums of log-probabilities, without tokens; an error if they are not finite.
ScoredText scored(std::vector<float> log_probabilities);

// The model's input.
struct ScoreRequest {
  std::vector<int32_t> ids;
  std::string error;  // why the text cannot be scored
};

// Const: safe to use from several threads.
class TextScorer {
 public:
  // Throws UsageError for a null model.
  explicit TextScorer(std::shared_ptr<const LoadedLanguageModel> model);
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

// A text and its translation. `error`: why there is no pair.
struct TextPair {
  std::string source, target;
  std::string error = {};
};

// A line as a pair, which a tab separates.
TextPair pair_of_line(const std::string& line);

// The model's input: see search::score().
struct PairScoreRequest {
  std::vector<int32_t> source, target;
  std::string error;  // why the pair cannot be scored
};

// Scores given translations with an encoder-decoder: log P(target, </s> | source). The tokens of a ScoredText
// are the target's, with </s>; an empty target is </s> alone. Const: safe to use from several threads.
class PairScorer {
 public:
  // Throws UsageError for a null model.
  explicit PairScorer(std::shared_ptr<const models::TranslationModel> model);
  // Throws the errors of open_translation_model().
  explicit PairScorer(const std::filesystem::path& folder, const models::LoadOptions& options = {});

  PairScoreRequest prepare(const TextPair& pair) const;
  // log_probabilities: from search::score() for the request.
  ScoredText finish(const PairScoreRequest& request, std::vector<float> log_probabilities) const;

  // The scores of each pair. An error of one pair, such as an empty source, does not affect the others.
  std::vector<ScoredText> operator()(std::span<const TextPair> pairs, int64_t batch_tokens = 4096) const;

 private:
  std::shared_ptr<const models::TranslationModel> model_;
};

}  // namespace qkv::pipelines
