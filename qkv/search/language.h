#pragma once
// Texts that a language model generates, and the probabilities that it gives to texts, as ids.

#include <memory>
#include <span>
#include <vector>

#include "qkv/models/language_model.h"
#include "qkv/search/engine.h"

namespace qkv::search {

// What an Engine needs to continue prompts. Throws UsageError for a model without a token that ends a text.
SpecialIds special_ids(const models::LanguageModel& model);

// The options that prompts are continued with where nothing else is said: greedy search for 128 tokens.
SearchOptions language_defaults();

// The request as the model can follow it: no longer than its positions, and ended by any of the tokens that
// end its texts. Throws UsageError for a prefix that leaves no position.
Request fitting(const models::LanguageModel& model, Request request);

// The continuations of each prompt (Request::source), in their order. Engine options change no result; an
// error of one prompt is in its result. Throws UsageError for bad engine options and what special_ids()
// throws.
std::vector<Decoded> generate(std::shared_ptr<const models::LanguageModel> model,
                              std::span<const Request> prompts, const EngineOptions& options = {});

// log P(token | the tokens before it), natural logarithms, for each token of each text but its first. Texts
// are batched by length, at most `batch_tokens` tokens at a time; the result does not depend on that. Throws
// UsageError for a text that is longer than the model can read, DataError for an id outside the vocabulary.
std::vector<std::vector<float>> score(const models::LanguageModel& model, std::span<const Ids> texts,
                                      int64_t batch_tokens = 4096);

}  // namespace qkv::search
