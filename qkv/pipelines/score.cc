#include "qkv/pipelines/score.h"

#include <cmath>
#include <numeric>

#include "qkv/base/parallel.h"
#include "qkv/pipelines/checks.h"
#include "qkv/pipelines/pieces.h"
#include "qkv/search/language.h"

namespace qkv::pipelines {

TextScorer::TextScorer(std::shared_ptr<const LoadedLanguageModel> model)
    : model_(required(std::move(model))) {}

ScoreRequest TextScorer::prepare(const std::string& text) const {
  ScoreRequest request{.ids = {}, .error = text_error(text)};
  if (!request.error.empty()) return request;
  request.ids = prompt_ids(*model_, text);
  const models::LanguageModelConfig& config = model_->model->config();
  request.error = length_error(std::ssize(request.ids), config.max_positions);
  if (request.error.empty()) request.error = ids_error(request.ids, config.vocabulary);
  return request;
}

ScoredText scored(std::vector<float> log_probabilities) {
  ScoredText result;
  result.log_probability = std::accumulate(log_probabilities.begin(), log_probabilities.end(), 0.0);
  if (!std::isfinite(result.log_probability))
    return {.tokens = {},
            .log_probabilities = {},
            .error = "model: expected finite log-probabilities, found NaN or infinity"};
  if (!log_probabilities.empty()) {
    result.perplexity = std::exp(-result.log_probability / static_cast<double>(log_probabilities.size()));
  }
  result.log_probabilities = std::move(log_probabilities);
  return result;
}

ScoredText TextScorer::finish(const ScoreRequest& request, std::vector<float> log_probabilities) const {
  if (!request.error.empty() || request.ids.empty())
    return {.tokens = {}, .log_probabilities = {}, .error = request.error};
  ScoredText result = scored(std::move(log_probabilities));
  if (!result.error.empty()) return result;
  result.tokens = pieces(model_->tokenizer, std::span(request.ids).subspan(1));
  return result;
}

std::vector<ScoredText> TextScorer::operator()(std::span<const std::string> texts,
                                               int64_t batch_tokens) const {
  std::vector<ScoreRequest> requests(texts.size());
  parallel_for(std::ssize(texts), 8, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      requests[i] = prepare(texts[i]);
  });
  std::vector<search::Ids> sequences;
  for (const ScoreRequest& request : requests)
    sequences.push_back(request.error.empty() ? search::Ids(request.ids) : search::Ids());
  std::vector<std::vector<float>> scores = search::score(*model_->model, sequences, batch_tokens);
  std::vector<ScoredText> results;
  for (size_t i = 0; i < texts.size(); ++i) results.push_back(finish(requests[i], std::move(scores[i])));
  return results;
}

}  // namespace qkv::pipelines
