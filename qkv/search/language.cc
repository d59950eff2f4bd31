#include "qkv/search/language.h"

#include <algorithm>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/data/batches_by_length.h"
#include "qkv/search/candidates.h"
#include "qkv/search/language_step_model.h"
#include "qkv/tensor/storage.h"

namespace qkv::search {

SpecialIds special_ids(const models::LanguageModel& model) {
  const std::vector<int32_t>& ends = model.config().eos_ids;
  return {.start = std::nullopt, .eos = ends.empty() ? SpecialIds::kNone : ends.front()};
}

SearchOptions language_defaults() {
  return {.beam = 1, .length_penalty = 0, .max_new_tokens = 128, .forced_eos = false, .max_source_factor = 0};
}

Request fitting(const models::LanguageModel& model, Request request) {
  const models::LanguageModelConfig& config = model.config();
  SearchOptions& options = request.options;
  if (!config.eos_ids.empty())
    options.stop.insert(options.stop.end(), config.eos_ids.begin() + 1, config.eos_ids.end());
  options.max_source_factor = 0;  // a text may be much longer than its prompt
  fit_positions(request, config.max_positions, std::ssize(request.source));
  return request;
}

std::vector<Decoded> generate(std::shared_ptr<const models::LanguageModel> model,
                              std::span<const Request> prompts, const EngineOptions& options) {
  auto step_model = std::make_shared<LanguageStepModel>(model);
  Engine engine(std::move(step_model), special_ids(*model), options);
  return decode_all(engine, prompts, [&](const Request& request) { return fitting(*model, request); });
}

TokenScores score_with_top(const models::LanguageModel& model, Ids text, int top) {
  TokenScores scores;
  if (text.size() < 2) return scores;
  const Ids input = text.first(text.size() - 1);
  nn::ForwardContext context;
  const Variable hidden = model(Ragged::from(std::span(&input, 1)), context);
  scores.log_probabilities = model.logits().log_probabilities(
      hidden.value(), text.subspan(1),
      [&](std::span<const float> row) { scores.top.push_back(most_likely(row, top)); });
  return scores;
}

std::vector<std::vector<float>> score(const models::LanguageModel& model, std::span<const Ids> texts,
                                      int64_t batch_tokens) {
  std::vector<int64_t> lengths;
  for (const Ids text : texts) lengths.push_back(std::ssize(text));
  std::vector<std::vector<float>> scores(texts.size());
  const InferenceMemory inference;
  for (const std::vector<size_t>& batch : data::batches_by_length(lengths, batch_tokens)) {
    // The last token predicts nothing; the first is not predicted.
    std::vector<Ids> inputs;
    std::vector<int32_t> labels;
    for (const size_t i : batch) {
      if (texts[i].size() < 2) continue;
      inputs.push_back(texts[i].first(texts[i].size() - 1));
      labels.insert(labels.end(), texts[i].begin() + 1, texts[i].end());
    }
    if (inputs.empty()) continue;
    nn::ForwardContext context;
    const Variable hidden = model(Ragged::from(inputs), context);
    const std::vector<float> found = model.logits().log_probabilities(hidden.value(), labels);
    auto next = found.begin();
    for (const size_t i : batch) {
      if (texts[i].size() < 2) continue;
      const auto end = next + std::ssize(texts[i]) - 1;
      scores[i].assign(next, end);
      next = end;
    }
  }
  return scores;
}

}  // namespace qkv::search
