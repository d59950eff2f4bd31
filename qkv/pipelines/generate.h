#pragma once
// From text to more text, with a language model and the tokenizer of its folder.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/pipelines/open_model.h"
#include "qkv/search/language.h"

namespace qkv::pipelines {

struct GenerateOptions {
  search::SearchOptions search = search::language_defaults();
  int64_t batch_tokens = 1024;  // prompt tokens side by side; decides memory and speed, never the result
};

struct Prompt {
  std::string text;
  uint64_t key = 0;  // what is drawn at random depends on it and on the seed
  // Gets what is written as soon as it is certain, in pieces that never end within a character. Only where
  // one text is asked for (nbest 1), and in greedy search or drawn at random.
  std::function<void(std::string_view)> on_text = {};
};

struct Completion {
  std::string text;               // without the prompt
  search::Hypothesis hypothesis;  // its ids and log-probabilities; complete where the model ended it itself
};

struct Generated {
  std::vector<Completion>
      completions;    // options.search.nbest of them, best first; none where there is an error
  std::string error;  // why there are none
  int64_t prompt_tokens = 0;
};

// Const: any number of threads may use one.
class TextGenerator {
 public:
  explicit TextGenerator(std::shared_ptr<const LoadedLanguageModel> model) : model_(std::move(model)) {}
  // Throws what open_language_model() throws.
  explicit TextGenerator(const std::filesystem::path& folder, const models::LoadOptions& options = {})
      : model_(open_language_model(folder, options)) {}

  const models::LanguageModel& model() const { return *model_->model; }
  const text::Tokenizer& tokenizer() const { return model_->tokenizer; }

  // What the folder's generation_config.json asks for, in greedy search.
  GenerateOptions default_options() const;

  // The continuations of each prompt, in the order of the prompts. An empty prompt is the beginning of a
  // text, where the model has a token for that. A prompt that is not UTF-8 or too long gets an error and
  // leaves the others unharmed. Throws UsageError for bad options.
  std::vector<Generated> generate(std::span<const Prompt> prompts, const GenerateOptions& options) const;

 private:
  std::shared_ptr<const LoadedLanguageModel> model_;
};

}  // namespace qkv::pipelines
