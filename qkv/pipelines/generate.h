#pragma once
// Continuations of prompts, by a language model.

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/pipelines/open_model.h"
#include "qkv/search/language.h"

namespace qkv::pipelines {

struct GenerateOptions {
  search::SearchOptions search = search::language_defaults();
};

struct Prompt {
  std::string text;
  uint64_t key = 0;  // with the seed, all that random numbers depend on
  // Called with the completion's text as soon as it is certain, in pieces that never end within a character.
  // Takes nbest 1, and greedy search or sampling.
  std::function<void(std::string_view)> on_text = {};
};

struct Completion {
  std::string text;               // without the prompt
  search::Hypothesis hypothesis;  // its ids and log-probabilities; complete where the model ended it itself
};

struct Generated {
  std::vector<Completion>
      completions;    // SearchOptions::nbest of them, best first; none where there is an error
  std::string error;  // why there are none; empty: there are
  int64_t prompt_tokens = 0;
};

// A prompt as an engine takes it, and what finish() needs besides.
struct GenerationRequest {
  search::Request decode;  // to submit, unless done(); a copy, as finish() reads its source
  Generated generated;
  std::function<void()> finish_text = {};  // passes on what on_text has not been called with

  // There is nothing to decode: the prompt has an error.
  bool done() const { return !generated.error.empty(); }
};

// Const: any number of threads may use one.
class TextGenerator {
 public:
  explicit TextGenerator(std::shared_ptr<const LoadedLanguageModel> model) : model_(std::move(model)) {}
  // Throws what open_language_model() throws.
  explicit TextGenerator(const std::filesystem::path& folder, const models::LoadOptions& options = {})
      : model_(open_language_model(folder, options)) {}

  const LoadedLanguageModel& model() const { return *model_; }

  // Greedy search with the penalties that the folder's generation_config.json recommends.
  GenerateOptions default_options() const;

  // An engine for requests of any generator of the same model. One engine is for one thread at a time. Throws
  // UsageError for a model without a token that ends a text.
  search::Engine make_engine(const search::EngineOptions& options = {}) const;

  // An empty prompt is the beginning of a text, where the model has a token for that. Throws UsageError for
  // bad options; an error of the prompt is in the request, which is then done().
  GenerationRequest prepare(const Prompt& prompt, const GenerateOptions& options) const;
  // decoded: what the engine returns for request.decode; nothing for a request that is done().
  Generated finish(GenerationRequest request, search::Decoded decoded = {}) const;

  // prepare(), an engine of its own, and finish(): the completions of each prompt, in the order of the
  // prompts. An error of one prompt, such as text that is not UTF-8, leaves the others unharmed. Throws
  // UsageError for bad options.
  std::vector<Generated> operator()(std::span<const Prompt> prompts, const GenerateOptions& options,
                                    const search::EngineOptions& engine = {}) const;

 private:
  std::shared_ptr<const LoadedLanguageModel> model_;
};

}  // namespace qkv::pipelines
