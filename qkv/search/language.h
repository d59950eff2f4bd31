#pragma once
// What a language model writes, and what it thinks of a text, by token numbers.

#include "qkv/models/language_model.h"
#include "qkv/search/engine.h"

namespace qkv::search {

// Texts in the middle of a language model, with their caches of keys and values. The model must outlive it.
class LanguageStepModel : public StepModel {
 public:
  explicit LanguageStepModel(const models::LanguageModel& model) : model_(model) {}

  int64_t vocabulary() const override { return model_.config().vocabulary; }
  // Throws UsageError for a prompt without tokens or with as many as the model can read or more, DataError
  // for an id outside the vocabulary.
  void check(Ids prompt) const override;
  // Reads all tokens of the prompts but their last at once.
  void admit(std::span<const Ids> prompts) override;
  Tensor step(const Tensor& ids) override { return model_.step(ids, state_); }
  void reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets) override {
    state_.reorder(parents, hypothesis_offsets);
  }

 private:
  const models::LanguageModel& model_;
  nn::DecoderState state_;
};

// What an Engine needs to go on with a model's prompts. Throws UsageError for a model that names no token
// which ends a text.
SpecialIds special_ids(const models::LanguageModel& model);

// How the outputs of one prompt are searched for: no longer than the model can read, and ended by all that
// ends the model's texts.
SearchOptions fitting(const models::LanguageModel& model, SearchOptions options, int64_t prompt_tokens);

// What comes after each prompt (Request::source), in their order. About `batch_tokens` prompt tokens are gone
// on with side by side; a result does not depend on that, nor on the other prompts. What is wrong with one
// prompt is in its result. Throws UsageError for bad options.
std::vector<Decoded> generate(const models::LanguageModel& model, std::span<const Request> prompts,
                              const SearchOptions& options, int64_t batch_tokens = 1024);

// log P(token | the tokens before it), natural logarithms, for each token of each text but its first. Texts
// are batched by length, at most `batch_tokens` tokens at a time; the result does not depend on that. Throws
// UsageError for a text that is longer than the model can read, DataError for an id outside the vocabulary.
std::vector<std::vector<float>> score(const models::LanguageModel& model, std::span<const Ids> texts,
                                      int64_t batch_tokens = 4096);

}  // namespace qkv::search
