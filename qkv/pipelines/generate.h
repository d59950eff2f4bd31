#pragma once
// Text generation with a language model.

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/pipelines/open_model.h"
#include "qkv/search/engine/engine.h"

namespace qkv::search {
SearchOptions language_defaults();  // language.h
}

namespace qkv::pipelines {

struct OutputGrammar;  // output_grammars.h
struct EncodedImage;   // images/prompt_images.h
using EncodedImageHandle = std::shared_ptr<const EncodedImage>;

struct GenerateOptions {
  // forced_eos: the last of max_new_tokens is the end token.
  search::SearchOptions search = search::language_defaults();
  // Limits of prompt and completion together, in tokens; 0: none. max_length replaces search.max_new_tokens.
  int max_length = 0, min_length = 0;
  // A JSON schema (grammar/json_schema.h): completions are JSON texts that it describes, or the beginning of
  // one if they end at a limit. Empty: none.
  std::string json_schema = {};
  // Another grammar of completions, in place of json_schema; null: none. The special tokens that it spells
  // are in the text.
  std::shared_ptr<const OutputGrammar> grammar = {};

  // The maximum number of new tokens after a prompt, end token included; below 1: the prompt is too long.
  int64_t max_new_tokens(int64_t prompt_tokens) const {
    return max_length > 0 ? max_length - prompt_tokens : search.max_new_tokens;
  }
};

struct Prompt {
  std::string text = {};  // with a placeholder for each image (PromptImages)
  std::vector<EncodedImageHandle> images = {};
  bool special_tokens = true;     // whether the tokenizer adds those that it adds to every text
  std::vector<int32_t> ids = {};  // the prompt as token ids, used as they are in place of `text`; empty: none
  models::EmbeddedRows rows = {};  // of the ids below 0
  uint64_t key = 0;                // with the seed, determines all random numbers
  // Streams the completion: called with each piece of text as soon as it is final; pieces never split a
  // character. Requires nbest 1, and greedy search or sampling.
  std::function<void(std::string_view)> on_text = {};
};

struct Completion {
  std::string text;               // without the prompt
  search::Hypothesis hypothesis;  // ids and log-probabilities; complete: ended by the model itself
};

struct Generated {
  // At most SearchOptions::nbest, best first, with different texts; none on error.
  std::vector<Completion> completions;
  std::string error;  // why there are none; empty on success
  int64_t prompt_tokens = 0;
  int64_t reused_tokens = 0;  // of these, found in the prefix cache (EngineOptions::prefix_bytes)
};

// A request for an engine, and the data that finish() needs.
struct GenerationRequest {
  search::Request decode;  // to submit, unless done(); a copy, as finish() reads its source
  Generated generated;
  int nbest = 1;  // completions to return; a beam search finds more, in case texts are equal
  std::vector<int32_t> spelled = {};       // special tokens that are in texts
  std::function<void()> finish_text = {};  // passes the rest of the text to on_text

  // True if the prompt has an error: there is nothing to decode.
  bool done() const { return !generated.error.empty(); }
};

// Const: safe to use from several threads.
class TextGenerator {
 public:
  // Throws UsageError for a null handle.
  explicit TextGenerator(std::shared_ptr<const LoadedLanguageModel> model)
      : model_(required(std::move(model))) {}
  // Throws the errors of open_language_model().
  explicit TextGenerator(const std::filesystem::path& folder, const models::LoadOptions& options = {})
      : model_(open_language_model(folder, options)) {}

  const LoadedLanguageModel& model() const { return *model_; }

  // The search recommended by the folder's generation_config.json, by default greedy. Throws the errors of
  // search_defaults() (qkv/pipelines/search_defaults.h).
  GenerateOptions default_options() const;

  // An image for Prompt::images, of the bytes of a PNG or JPEG file; `name` is for messages. Throws DataError
  // for a model that reads none, and those of data::decode_image() and PromptImages::encode().
  EncodedImageHandle image(std::string_view bytes, const std::string& name) const;

  // An engine for requests of any generator of the same model. An engine serves one thread at a time.
  search::Engine make_engine(const search::EngineOptions& options = {},
                             const search::StepModelOptions& step_model = {}) const;

  // An empty prompt becomes the model's start token, if it has one. Throws UsageError for bad options. An
  // error of the prompt is stored in the request, which is then done().
  GenerationRequest prepare(const Prompt& prompt, const GenerateOptions& options) const;
  // decoded: the engine's result for request.decode; empty for a request that is done().
  Generated finish(GenerationRequest request, search::Decoded decoded = {}) const;

  // prepare(), a temporary engine, and finish(): the completions of each prompt, in order. An error of one
  // prompt, such as invalid UTF-8, does not affect the others. Throws UsageError for bad options.
  std::vector<Generated> operator()(std::span<const Prompt> prompts, const GenerateOptions& options,
                                    const search::EngineOptions& engine = {},
                                    const search::StepModelOptions& step_model = {}) const;

 private:
  std::shared_ptr<const LoadedLanguageModel> model_;
};

}  // namespace qkv::pipelines
