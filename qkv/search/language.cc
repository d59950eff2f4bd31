#include "qkv/search/language.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/search/batches.h"
#include "qkv/search/score.h"

namespace qkv::search {

void LanguageStepModel::check(Ids prompt) const {
  const models::LanguageModelConfig& config = model_.config();
  if (prompt.empty()) throw UsageError("prompt: expected at least one token, found none");
  if (std::ssize(prompt) > config.max_positions) {
    throw UsageError(concat("prompt: expected at most the ", config.max_positions,
                            " tokens that the model can read, found ", prompt.size()));
  }
  for (const int32_t id : prompt) {
    if (id >= 0 && id < config.vocabulary) continue;
    throw DataError(concat("prompt: expected ids from 0 to ", config.vocabulary - 1, ", found ", id));
  }
}

void LanguageStepModel::admit(std::span<const Ids> prompts) {
  std::vector<Ids> beginnings;
  for (const Ids prompt : prompts) beginnings.push_back(prompt.first(prompt.size() - 1));
  state_.join(model_.start(pack_ragged(beginnings)));
}

SpecialIds special_ids(const models::LanguageModel& model) {
  const std::vector<int32_t>& ends = model.config().eos_ids;
  if (ends.empty()) {
    throw UsageError("generate: expected a model whose \"eos_token_id\" says what ends a text, found none");
  }
  return {.start = std::nullopt, .eos = ends.front()};
}

SearchOptions fitting(const models::LanguageModel& model, SearchOptions options, int64_t prompt_tokens) {
  const models::LanguageModelConfig& config = model.config();
  for (size_t i = 1; i < config.eos_ids.size(); ++i) options.stop.push_back(config.eos_ids[i]);
  // The last token is never read, and the end that the limit forces takes no place.
  const int64_t most = config.max_positions - prompt_tokens + 2;
  options.max_length = static_cast<int>(std::clamp<int64_t>(most, 2, options.max_length));
  options.min_length = std::min(options.min_length, options.max_length);
  options.max_source_factor = 0;  // a text may be much longer than its beginning
  return options;
}

std::vector<Decoded> generate(const models::LanguageModel& model, std::span<const Request> prompts,
                              const SearchOptions& options, int64_t batch_tokens) {
  options.validate();
  LanguageStepModel step_model(model);
  Engine engine(step_model, special_ids(model), batch_tokens);
  std::vector<Decoded> results(prompts.size());
  // The longest first, so that those side by side are of similar lengths.
  std::vector<size_t> order(prompts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return prompts[i].source.size(); });
  std::vector<size_t> of_ticket;
  for (const size_t i : order) {
    try {
      engine.submit(prompts[i], fitting(model, options, std::ssize(prompts[i].source)));
      of_ticket.push_back(i);
    } catch (const Error&) {
      results[i].error = std::current_exception();
    }
  }
  while (!engine.idle()) {
    for (Decoded& done : engine.step()) {
      const size_t i = of_ticket[done.request_id];
      results[i] = std::move(done);
    }
  }
  for (size_t i = 0; i < results.size(); ++i) results[i].request_id = i;
  return results;
}

std::vector<std::vector<float>> score(const models::LanguageModel& model, std::span<const Ids> texts,
                                      int64_t batch_tokens) {
  std::vector<int64_t> lengths;
  for (const Ids text : texts) lengths.push_back(std::ssize(text));
  std::vector<std::vector<float>> scores(texts.size());
  for (const std::vector<size_t>& batch : batches_by_length(lengths, batch_tokens)) {
    // The last token of a text has nothing to predict, the first is predicted by nothing.
    std::vector<Ids> inputs;
    std::vector<int32_t> labels;
    for (const size_t i : batch) {
      if (texts[i].size() < 2) continue;
      inputs.push_back(texts[i].first(texts[i].size() - 1));
      labels.insert(labels.end(), texts[i].begin() + 1, texts[i].end());
    }
    if (inputs.empty()) continue;
    nn::ForwardContext context;
    const Variable hidden = model(pack_ragged(inputs), context);
    const std::vector<float> found =
        label_log_probabilities(model.output_projection(), hidden.value(), labels);
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
