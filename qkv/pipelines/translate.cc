#include "qkv/pipelines/translate.h"

#include <algorithm>
#include <tuple>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/ops/profile.h"
#include "qkv/pipelines/checks.h"
#include "qkv/pipelines/nbest.h"
#include "qkv/pipelines/pieces.h"
#include "qkv/pipelines/run_engine.h"
#include "qkv/pipelines/search_defaults.h"
#include "qkv/search/alignment.h"

namespace qkv::pipelines {
namespace {

TranslatedHypothesis spell(const text::TranslationTokenizer& tokenizer, search::Hypothesis hypothesis) {
  TranslatedHypothesis result;
  result.text = tokenizer.decode(hypothesis.ids);
  result.tokens = pieces(tokenizer, hypothesis.ids, text::Side::target);
  result.hypothesis = std::move(hypothesis);
  return result;
}

// In an ensemble, an id must mean the same token to all models.
void require_one_vocabulary(const text::TranslationTokenizer& first,
                            const text::TranslationTokenizer& other) {
  for (const text::Side side : {text::Side::source, text::Side::target}) {
    const char* const name = side == text::Side::source ? "source" : "target";
    if (first.size(side) != other.size(side)) {
      throw UsageError(concat("ensemble: expected models of one ", name, " vocabulary, found ",
                              first.size(side), " and ", other.size(side), " pieces"));
    }
    for (int32_t id = 0; id < first.size(side); ++id) {
      if (first.piece(id, side) != other.piece(id, side)) {
        throw UsageError(concat("ensemble: expected models of one ", name, " vocabulary, found piece ", id,
                                " to be \"", first.piece(id, side), "\" and \"", other.piece(id, side),
                                "\""));
      }
    }
  }
}

// The token with which outputs in a language begin; an empty language: as the options say. Models that begin
// outputs with their language (mBART) have one.
std::optional<int32_t> first_token(const models::TranslationModel& model, const TranslateOptions& options) {
  const std::string& language = options.languages.target_language;
  if (language.empty()) return options.search.rules.forced_bos;
  const text::TranslationTokenizer& tokenizer = *model.tokenizer;
  const int32_t id = tokenizer.target_language(language);
  const auto start = static_cast<int32_t>(model.config.decoder_start_id);
  if (!tokenizer.is_language(start)) return id;
  if (id == start) return options.search.rules.forced_bos;
  throw UsageError(concat("target_language: expected ", tokenizer.piece(start),
                          ", with which the model's outputs begin, found ", language));
}

// A failed request, which is done().
TranslationRequest failed(TranslationRequest request, std::string error) {
  request.translation.error = std::move(error);
  request.decode.source.clear();
  return request;
}

}  // namespace

TranslateOptions default_options(const models::TranslationModel& model) {
  return {.search = search_defaults(model.generation, static_cast<int32_t>(model.config.eos_id))};
}

Translator::Translator(std::shared_ptr<const models::TranslationModel> model)
    : Translator(std::vector{std::move(model)}) {}

Translator::Translator(const std::filesystem::path& folder, const models::LoadOptions& options)
    : Translator(open_translation_model(folder, options)) {}

Translator::Translator(std::vector<std::shared_ptr<const models::TranslationModel>> models)
    : models_(std::move(models)) {
  if (models_.empty()) throw UsageError("translator: expected at least one model, found none");
  for (const auto& model : models_) {
    require_one_vocabulary(*required(models_.front())->tokenizer, *required(model)->tokenizer);
    transformers_.push_back(model->transformer);
  }
}

search::Engine Translator::make_engine(const search::EngineOptions& options,
                                       const search::StepModelOptions& step_model) const {
  return {search::make_step_model(transformers_, step_model), search::special_ids(transformers_), options};
}

void Translator::check(const TranslateOptions& options) const {
  options.search.validate();
  around_source(model(), options.languages.source_language);
  first_token(model(), options);
  if (options.max_source_tokens < 0 || options.max_source_tokens == 1) {
    throw UsageError(
        concat("max_source_tokens: expected 0 or at least 2, found ", options.max_source_tokens));
  }
  if (options.trace && (options.search.sampling || options.search.alternatives)) {
    throw UsageError(concat("trace: expected one beam search, found ",
                            options.search.sampling ? "sampling" : "alternatives"));
  }
}

TranslationRequest Translator::prepare(const Source& source, const TranslateOptions& options) const {
  check(options);
  TranslationRequest request{
      .decode = {}, .translation = {}, .nbest = options.search.nbest, .alignment = options.alignment};
  Translation& translation = request.translation;
  if (std::string error = text_error(source.text); !error.empty()) return failed(std::move(request), error);
  if (std::string error = text_error(source.prefix); !error.empty())
    return failed(std::move(request), concat("prefix: ", error));
  const text::TranslationTokenizer& tokenizer = *model().tokenizer;
  request.decode.options = options.search;
  request.decode.options.nbest = with_spare_hypotheses(options.search);
  const std::optional<int32_t> first = first_token(model(), options);
  request.decode.options.rules.forced_bos = first;
  request.decode.prefix = tokenizer.encode_target(source.prefix);
  if (first && (!request.decode.prefix.empty() || options.search.alternatives))
    request.decode.prefix.insert(request.decode.prefix.begin(), *first);
  request.decode.key = source.key;
  request.decode.on_token = source.on_token;
  std::vector<int32_t>& ids = request.decode.source;
  const text::Around around = around_source(model(), options.languages.source_language);
  ids = source_ids(model(), source.text, around);
  if (ids.empty()) return request;
  translation.source_tokens = std::ssize(ids);

  std::optional<int64_t> limit;
  if (options.max_source_tokens > 0) limit = options.max_source_tokens;
  for (const auto& model : models_) {
    if (const auto positions = model->config.max_tokens())
      limit = std::min(limit.value_or(*positions), *positions);
  }
  if (limit && translation.source_tokens > *limit) {
    if (!options.truncate) {
      return failed(std::move(request), length_error(translation.source_tokens, limit, "source tokens"));
    }
    const int64_t kept = std::max(int64_t{0}, *limit - std::ssize(around.after));
    ids.erase(ids.begin() + kept, ids.end() - std::ssize(around.after));
    translation.truncated = true;
  }
  for (const auto& [side, given, rows] :
       {std::tuple("source", &ids, model().config.source_vocabulary),
        {"prefix", &request.decode.prefix, model().config.target_vocabulary}}) {
    if (std::string error = ids_error(*given, rows); !error.empty())
      return failed(std::move(request), concat(side, ": ", error));
  }
  translation.source_pieces = pieces(tokenizer, ids, text::Side::source);
  try {
    request.decode = search::fitting(transformers_, std::move(request.decode));
  } catch (const Error& error) {
    return failed(std::move(request), error.what());
  }
  if (options.trace) {
    request.trace = std::make_unique<search::SearchTrace>();
    request.decode.trace = request.trace.get();
  }
  return request;
}

Translation Translator::finish(TranslationRequest request, search::Decoded decoded) const {
  Translation result = std::move(request.translation);
  if (request.done()) return result;
  if (request.trace) result.trace = std::move(*request.trace);
  if (decoded.cancelled) result.error = "cancelled";
  if (decoded.error) result.error = message_of(decoded.error);
  for (search::Hypothesis& hypothesis : decoded.hypotheses) {
    TranslatedHypothesis spelled = spell(*model().tokenizer, std::move(hypothesis));
    if (!is_new_text(result.hypotheses, spelled.text)) continue;
    if (std::ssize(result.hypotheses) == request.nbest) break;
    TranslatedHypothesis& one = result.hypotheses.emplace_back(std::move(spelled));
    if (request.alignment) {
      one.alignment = search::align(*transformers_.front(), request.decode.source, one.hypothesis.ids);
    }
  }
  if (!result.hypotheses.empty()) result.text = result.hypotheses.front().text;
  return result;
}

std::vector<Translation> Translator::operator()(std::span<const Source> sources,
                                                const TranslateOptions& options,
                                                const search::EngineOptions& engine_options,
                                                const search::StepModelOptions& step_model) const {
  check(options);
  std::vector<TranslationRequest> requests(sources.size());
  {
    const ProfileScope profile("tokenizing");
    parallel_for(std::ssize(sources), 8, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
        requests[i] = prepare(sources[i], options);
    });
  }
  return run_engine(make_engine(engine_options, step_model), std::move(requests),
                    [this](TranslationRequest request, search::Decoded decoded) {
                      return finish(std::move(request), std::move(decoded));
                    });
}

std::vector<Translation> Translator::operator()(std::span<const std::string> sources,
                                                const TranslateOptions& options,
                                                const search::EngineOptions& engine,
                                                const search::StepModelOptions& step_model) const {
  std::vector<Source> keyed;
  for (const std::string& text : sources) keyed.push_back({.text = text, .key = keyed.size()});
  return (*this)(keyed, options, engine, step_model);
}

Source source_of_line(std::string text, int64_t line, bool prefix_after_tab) {
  Source source{.text = std::move(text), .key = static_cast<uint64_t>(line)};
  if (const size_t tab = source.text.find('\t'); prefix_after_tab && tab != std::string::npos) {
    source.prefix = source.text.substr(tab + 1);
    source.text.resize(tab);
  }
  return source;
}

}  // namespace qkv::pipelines
