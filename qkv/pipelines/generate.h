#pragma once
// From text to more text, with a language model and the tokenizer of its folder.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/models/hub/load_options.h"
#include "qkv/pipelines/text_attention.h"
#include "qkv/search/language.h"
#include "qkv/text/tokenizer.h"

namespace qkv::pipelines {

struct GenerateOptions {
  // max_length is of what is written, its end not counted.
  search::SearchOptions search = {.beam = 1, .length_penalty = 0, .max_length = 128};
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
  std::vector<Completion> writings;  // options.search.nbest of them, best first; none where there is an error
  std::string error;                 // why there are none
  int64_t prompt_tokens = 0;
};

// How likely a text is.
struct ScoredText {
  std::vector<std::string> tokens;       // of which probabilities are known
  std::vector<float> log_probabilities;  // natural logarithms
  double log_probability = 0;            // their sum
  double perplexity = 0;                 // exp of minus their mean; 0 where there are none
  std::string error;
};

// A language model and its tokenizer. Const: any number of threads may use one.
class TextGenerator {
 public:
  // Throws what models::load_language_model() and text::Tokenizer::load() throw, and DataError for a
  // tokenizer with more tokens than the model has.
  explicit TextGenerator(const std::filesystem::path& folder, const models::LoadOptions& options = {});

  const models::LanguageModel& model() const { return *model_; }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }

  // What the model goes on with, for each prompt in their order. An empty prompt is the beginning of a text,
  // where the model has a token for that. A prompt that is not UTF-8 or too long gets an error and leaves the
  // others unharmed. Throws UsageError for bad options.
  std::vector<Generated> generate(std::span<const Prompt> prompts, const GenerateOptions& options) const;

  // A text's probability given its first token, which is the model's beginning of texts where the tokenizer
  // puts that in front.
  std::vector<ScoredText> score(std::span<const std::string> texts, int64_t batch_tokens = 4096) const;

  // What the model attends to in a text. Throws DataError for one that is not UTF-8, UsageError for one that
  // is too long or has no tokens.
  TextAttention attention(const std::string& text) const;

 private:
  std::vector<int32_t> read(const std::string& text) const;

  std::unique_ptr<const models::LanguageModel> model_;
  text::Tokenizer tokenizer_;
};

}  // namespace qkv::pipelines
