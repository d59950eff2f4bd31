#pragma once
// Generation and scoring with language models, on token ids.

#include <memory>
#include <span>
#include <vector>

#include "qkv/models/language_model.h"
#include "qkv/search/engine/engine.h"

namespace qkv::search {

// The special ids that an Engine needs to continue prompts.
SpecialIds special_ids(const models::LanguageModel& model);

// Default options for language models: greedy search for up to 128 new tokens.
SearchOptions language_defaults();

// The request adapted to the model: limited to its positions, and ended by any of its end tokens. Throws
// UsageError for a prefix that leaves no position.
Request fitting(const models::LanguageModel& model, Request request);

// The continuations of each prompt (Request::source), in order. Engine options do not affect results. A
// prompt's error is returned in its result. Throws UsageError for bad engine options.
std::vector<Decoded> generate(std::shared_ptr<const models::LanguageModel> model,
                              std::span<const Request> prompts, const EngineOptions& options = {});

// log P(token | preceding tokens), natural logarithm, for each token of each text but the first. Texts are
// batched by length, at most `batch_tokens` tokens at a time, which does not affect the result. Throws
// UsageError for a text longer than the model's positions, DataError for an id outside the vocabulary.
std::vector<std::vector<float>> score(const models::LanguageModel& model, std::span<const Ids> texts,
                                      int64_t batch_tokens = 4096);

// The scores of one text as above, and the `top` most likely tokens in the place of each, best first, ties by
// id.
struct TokenScores {
  std::vector<float> log_probabilities;            // of each token but the first
  std::vector<std::vector<TokenProbability>> top;  // likewise
};
TokenScores score_with_top(const models::LanguageModel& model, Ids text, int top);

}  // namespace qkv::search
