#include "qkv/pipelines/generate.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/pipelines/checks.h"
#include "qkv/pipelines/images/prompt_images.h"
#include "qkv/pipelines/nbest.h"
#include "qkv/pipelines/output_grammars.h"
#include "qkv/pipelines/pieces.h"
#include "qkv/pipelines/run_engine.h"
#include "qkv/pipelines/search_defaults.h"
#include "qkv/search/language.h"
#include "qkv/search/language_step_model.h"

namespace qkv::pipelines {
namespace {

// The ids that are in a text: special tokens only if they are spelled.
std::vector<int32_t> ids_in_text(const text::Tokenizer& tokenizer, search::Ids ids,
                                 std::span<const int32_t> spelled) {
  std::vector<int32_t> all(ids.begin(), ids.end());
  if (spelled.empty()) return all;
  std::erase_if(
      all, [&](int32_t id) { return tokenizer.is_special(id) && !std::ranges::binary_search(spelled, id); });
  return all;
}

// Streams tokens as text.
class TextStream {
 public:
  // The prompt has been shown already; its last token determines whether the continuation begins with a
  // space.
  TextStream(const text::Tokenizer& tokenizer, search::Ids prompt, std::vector<int32_t> spelled,
             std::function<void(std::string_view)> sink)
      : tokenizer_(tokenizer),
        spelled_(std::move(spelled)),
        decoder_(tokenizer, {.skip_special_tokens = spelled_.empty()}),
        sink_(std::move(sink)) {
    decoder_.skip(ids_in_text(tokenizer_, prompt, spelled_));
  }
  bool add(const search::NewToken& token) {
    for (const int32_t id : ids_in_text(tokenizer_, {&token.id, 1}, spelled_)) pass_on(decoder_.add(id));
    return true;
  }
  void finish() { pass_on(decoder_.finish()); }

 private:
  void pass_on(const std::string& text) {
    if (!text.empty()) sink_(text);
  }

  text::Tokenizer tokenizer_;
  std::vector<int32_t> spelled_;
  text::StreamDecoder decoder_;
  std::function<void(std::string_view)> sink_;
};

// The text of ids that follow a prompt, including the space between them, if any.
std::string continuation(const text::Tokenizer& tokenizer, search::Ids prompt, search::Ids ids,
                         std::span<const int32_t> spelled) {
  const text::DecodeOptions options{.skip_special_tokens = spelled.empty()};
  const std::vector<int32_t> own = ids_in_text(tokenizer, ids, spelled);
  std::vector<int32_t> all = ids_in_text(tokenizer, prompt, spelled);
  const std::string before = tokenizer.decode(all, options);
  all.insert(all.end(), own.begin(), own.end());
  const std::string whole = tokenizer.decode(all, options);
  return whole.starts_with(before) ? whole.substr(before.size()) : tokenizer.decode(own, options);
}

PromptIds ids_of(const LoadedLanguageModel& model, const Prompt& prompt) {
  if (!model.images && !prompt.images.empty()) throw DataError(model.no_images);
  if (!model.images) return {prompt_ids(model, prompt.text, prompt.special_tokens)};
  PromptIds read = model.images->prompt(prompt.text, prompt.images, prompt.special_tokens);
  if (read.ids.empty()) read.ids = first_ids(model);
  return read;
}

void check(const GenerateOptions& options) { options.search.validate(); }

// The options of the search that continues a prompt. `tokens`: its length. Requires a
// GenerateOptions::max_new_tokens(tokens) of at least 1.
search::SearchOptions after_prompt(const GenerateOptions& options, int64_t tokens) {
  search::SearchOptions search = options.search;
  const int64_t most = options.max_new_tokens(tokens) - (search.forced_eos ? 1 : 0);
  search.max_new_tokens = static_cast<int>(std::max<int64_t>(most, 1));
  const int64_t least = std::max<int64_t>(search.min_new_tokens, options.min_length - tokens);
  search.min_new_tokens = static_cast<int>(std::min<int64_t>(least, search.max_new_tokens));
  return search;
}

}  // namespace

GenerateOptions TextGenerator::default_options() const {
  const models::GenerationDefaults& defaults = model_->generation;
  const int32_t eos = search::special_ids(*model_->model).eos;
  return {.search = search_defaults(defaults, eos),
          .max_length = defaults.max_length,
          .min_length = defaults.min_length};
}

EncodedImageHandle TextGenerator::image(std::string_view bytes, const std::string& name) const {
  if (!model_->images) throw DataError(concat(name, ": ", model_->no_images));
  const data::Image image = data::decode_image(bytes, name);
  try {
    return model_->images->encode(image);
  } catch (const DataError& error) {
    throw DataError(concat(name, ": ", error.what()));
  }
}

search::Engine TextGenerator::make_engine(const search::EngineOptions& options,
                                          const search::StepModelOptions& step_model) const {
  return {std::make_shared<search::LanguageStepModel>(model_->model, step_model),
          search::special_ids(*model_->model), options};
}

GenerationRequest TextGenerator::prepare(const Prompt& prompt, const GenerateOptions& options) const {
  check(options);
  if (prompt.on_text && options.search.nbest != 1) {
    throw UsageError(concat("on_text: expected nbest 1, found ", options.search.nbest));
  }
  GenerationRequest request;
  std::string& error = request.generated.error;
  error = text_error(prompt.text);
  if (request.done()) return request;
  try {
    PromptIds read = prompt.ids.empty() ? ids_of(*model_, prompt) : PromptIds{prompt.ids, prompt.rows};
    request.decode.source = std::move(read.ids);
    request.decode.rows = std::move(read.rows);
  } catch (const DataError& refused) {
    error = refused.what();
    return request;
  }
  request.decode.key = prompt.key;
  const int64_t tokens = std::ssize(request.decode.source);
  request.generated.prompt_tokens = tokens;
  error = length_error(tokens, model_->model->config().max_positions);
  if (error.empty() && options.max_new_tokens(tokens) < 1)
    error = concat("expected fewer tokens than max_length = ", options.max_length, ", found ", tokens);
  if (error.empty())
    error = ids_error(request.decode.source, model_->model->config().vocabulary, request.decode.rows.count());
  if (request.done()) return request;
  request.decode.options = after_prompt(options, tokens);
  if (options.grammar || !options.json_schema.empty()) {
    const auto grammar =
        options.grammar ? options.grammar
                        : std::make_shared<const OutputGrammar>(json_schema_grammar(options.json_schema));
    request.decode.options.constraints.push_back(
        model_->grammars->constraint(*grammar, model_->tokenizer, model_->model->config().vocabulary));
    request.spelled = grammar->spelled;
  }
  request.nbest = options.search.nbest;
  request.decode.options.nbest = with_spare_hypotheses(options.search);
  try {
    request.decode = search::fitting(*model_->model, std::move(request.decode));
  } catch (const Error& refused) {
    error = refused.what();
    return request;
  }
  if (prompt.on_text) {
    const auto stream = std::make_shared<TextStream>(model_->tokenizer, request.decode.source,
                                                     request.spelled, prompt.on_text);
    request.decode.on_token = [stream](const search::NewToken& token) { return stream->add(token); };
    request.finish_text = [stream] { stream->finish(); };
  }
  return request;
}

Generated TextGenerator::finish(GenerationRequest request, search::Decoded decoded) const {
  Generated result = std::move(request.generated);
  if (!result.error.empty()) return result;
  if (request.finish_text) request.finish_text();
  result.reused_tokens = decoded.reused_tokens;
  if (decoded.cancelled) result.error = "cancelled";
  if (decoded.error) result.error = message_of(decoded.error);
  for (search::Hypothesis& hypothesis : decoded.hypotheses) {
    // An end token at the limit was not chosen by the model, and is dropped unless it is forced.
    const search::SearchOptions& options = request.decode.options;
    const bool forced = options.forced_eos && std::ssize(hypothesis.ids) > options.max_new_tokens;
    if (!hypothesis.complete && !forced && !hypothesis.ids.empty()) {
      hypothesis.ids.pop_back();
      if (!hypothesis.token_log_probabilities.empty()) hypothesis.token_log_probabilities.pop_back();
    }
    std::string text =
        continuation(model_->tokenizer, request.decode.source, hypothesis.ids, request.spelled);
    if (!is_new_text(result.completions, text)) continue;
    if (std::ssize(result.completions) == request.nbest) break;
    result.completions.push_back({std::move(text), std::move(hypothesis)});
  }
  return result;
}

std::vector<Generated> TextGenerator::operator()(std::span<const Prompt> prompts,
                                                 const GenerateOptions& options,
                                                 const search::EngineOptions& engine_options,
                                                 const search::StepModelOptions& step_model) const {
  check(options);
  std::vector<GenerationRequest> requests(prompts.size());
  parallel_for(std::ssize(prompts), 8, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      requests[i] = prepare(prompts[i], options);
  });
  return run_engine(make_engine(engine_options, step_model), std::move(requests),
                    [this](GenerationRequest request, search::Decoded decoded) {
                      return finish(std::move(request), std::move(decoded));
                    });
}

}  // namespace qkv::pipelines
