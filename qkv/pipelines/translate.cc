#include "qkv/pipelines/translate.h"

#include <algorithm>
#include <exception>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/ops/profile.h"
#include "qkv/search/alignment.h"
#include "qkv/text/utf8.h"

namespace qkv::pipelines {
namespace {

std::vector<std::string> pieces(const text::TranslationTokenizer& tokenizer, std::span<const int32_t> ids,
                                text::Side side) {
  std::vector<std::string> result;
  for (const int32_t id : ids) result.emplace_back(tokenizer.piece(id, side));
  return result;
}

TranslatedHypothesis spell(const text::TranslationTokenizer& tokenizer, search::Hypothesis hypothesis) {
  TranslatedHypothesis result;
  result.text = tokenizer.decode(hypothesis.ids);
  result.tokens = pieces(tokenizer, hypothesis.ids, text::Side::target);
  result.hypothesis = std::move(hypothesis);
  return result;
}

// Of what went wrong with one source. What is no error of ours, as a lack of memory, concerns all.
std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.what();
  }
}

// Models can speak together only where an id means the same to all of them.
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

// The next line without its end, of which `line` holds the first `most` bytes. Its length; none after the
// last.
std::optional<int64_t> read_line(std::istream& in, int64_t most, std::string& line) {
  constexpr int kEnd = std::istream::traits_type::eof();
  line.clear();
  int next = in.get();
  if (next == kEnd) return std::nullopt;
  int64_t length = 0;
  char last = 0;
  for (; next != kEnd && next != '\n'; next = in.get()) {
    last = static_cast<char>(next);
    if (length++ < most) line.push_back(last);
  }
  if (last == '\r') {
    --length;
    line.resize(std::min(line.size(), static_cast<size_t>(length)));
  }
  return length;
}

}  // namespace

Translator::Translator(const models::TranslationModel& model) : Translator(std::vector{&model}) {}

Translator::Translator(std::vector<const models::TranslationModel*> models) : models_(std::move(models)) {
  if (models_.empty()) throw UsageError("translator: expected at least one model, found none");
  for (const models::TranslationModel* model : models_) {
    require_one_vocabulary(*models_.front()->tokenizer, *model->tokenizer);
    transformers_.push_back(model->transformer);
  }
}

TranslateOptions default_options(const models::TranslationModel& model) {
  TranslateOptions options;
  options.search.beam = model.generation.beam;
  options.search.length_penalty = model.generation.length_penalty;
  options.search.early_stopping = model.generation.early_stopping;
  options.search.max_new_tokens = model.generation.max_new_tokens;
  options.search.min_new_tokens = model.generation.min_new_tokens;
  options.search.no_repeat_ngram = model.generation.no_repeat_ngram;
  options.search.repetition_penalty = model.generation.repetition_penalty;
  options.search.renormalize = model.generation.renormalize;
  for (const std::vector<int32_t>& ids : model.generation.bad_words) {
    if (ids.size() == 1) {
      options.search.suppress_tokens.push_back(ids.front());
    } else {
      options.search.bad_words.push_back(ids);
    }
  }
  return options;
}

search::Request Translator::read(const Source& source, const TranslateOptions& options,
                                 Translation& translation) const {
  if (const auto bad = text::first_bad_utf8(source.text)) {
    translation.error = concat("expected UTF-8, found a malformed character at byte ", *bad);
    return {};
  }
  if (const auto bad = text::first_bad_utf8(source.prefix)) {
    translation.error = concat("prefix: expected UTF-8, found a malformed character at byte ", *bad);
    return {};
  }
  const text::TranslationTokenizer& tokenizer = *models_.front()->tokenizer;
  search::Request request{.source = tokenizer.encode_source(source.text),
                          .options = options.search,
                          .prefix = tokenizer.encode_target(source.prefix),
                          .key = source.key};
  std::vector<int32_t>& ids = request.source;
  if (ids.empty()) return {};
  ids.push_back(tokenizer.eos_id(text::Side::source));
  translation.source_tokens = std::ssize(ids);

  int64_t most = options.max_source_tokens;
  for (const models::TranslationModel* model : models_) {
    if (const auto places = model->config.most_tokens()) most = most > 0 ? std::min(most, *places) : *places;
  }
  if (most > 0 && translation.source_tokens > most) {
    if (!options.truncate) {
      translation.error =
          concat("expected at most ", most, " source tokens, found ", translation.source_tokens);
      return {};
    }
    ids[static_cast<size_t>(most) - 1] = ids.back();
    ids.resize(static_cast<size_t>(most));
    translation.truncated = true;
  }
  translation.source_pieces = pieces(tokenizer, ids, text::Side::source);
  return request;
}

std::vector<Translation> Translator::translate(std::span<const Source> sources,
                                               const TranslateOptions& options) const {
  options.search.validate();
  if (options.max_source_tokens < 0 || options.max_source_tokens == 1) {
    throw UsageError(
        concat("max_source_tokens: expected 0 or at least 2, found ", options.max_source_tokens));
  }
  if (options.trace && (options.search.sampling || options.search.alternatives)) {
    throw UsageError(
        concat("trace: expected one beam search, found that ",
               options.search.sampling ? "tokens are drawn at random" : "alternatives are asked for"));
  }
  std::vector<Translation> translations(sources.size());
  std::vector<search::Request> requests(sources.size());
  {
    const ProfileScope profile("tokenizing");
    parallel_for(std::ssize(sources), 8, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        requests[i] = read(sources[i], options, translations[i]);
      }
    });
  }
  std::vector<size_t> kept;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].source.empty()) continue;
    if (options.trace) requests[i].trace = &translations[i].trace.emplace();
    if (kept.size() < i) requests[kept.size()] = std::move(requests[i]);
    kept.push_back(i);
  }
  requests.resize(kept.size());

  std::vector<search::Decoded> found =
      search::search_each(transformers_, requests, {.batch_tokens = options.batch_tokens});
  for (size_t k = 0; k < kept.size(); ++k) {
    Translation& translation = translations[kept[k]];
    if (found[k].error) translation.error = message_of(found[k].error);
    for (search::Hypothesis& hypothesis : found[k].hypotheses) {
      translation.hypotheses.push_back(spell(*models_.front()->tokenizer, std::move(hypothesis)));
      TranslatedHypothesis& one = translation.hypotheses.back();
      if (options.alignment) {
        one.alignment = search::align(*transformers_.front(), requests[k].source, one.hypothesis.ids);
      }
    }
    if (!translation.hypotheses.empty()) translation.text = translation.hypotheses.front().text;
  }
  return translations;
}

std::vector<Translation> Translator::translate(std::span<const std::string> sources,
                                               const TranslateOptions& options) const {
  std::vector<Source> keyed;
  for (const std::string& text : sources) keyed.push_back({.text = text, .key = keyed.size()});
  return translate(keyed, options);
}

StreamCounts translate_lines(const Translator& translator, std::istream& in,
                             const std::function<void(int64_t line, const Translation&)>& sink,
                             const TranslateOptions& options, const StreamOptions& stream) {
  if (stream.max_line_bytes < 1)
    throw UsageError(concat("max_line_bytes: expected at least 1, found ", stream.max_line_bytes));
  StreamCounts counts;
  std::vector<Source> lines;
  std::vector<std::string> refusals;  // of each line: why it is not translated; empty: it is
  int64_t bytes = 0;
  const auto flush = [&] {
    std::vector<Translation> translations = translator.translate(lines, options);
    for (size_t i = 0; i < translations.size(); ++i) {
      Translation& translation = translations[i];
      if (!refusals[i].empty()) translation.error = refusals[i];
      ++counts.lines;
      counts.errors += translation.error.empty() ? 0 : 1;
      counts.truncated += translation.truncated ? 1 : 0;
      sink(counts.lines, translation);
    }
    lines.clear();
    refusals.clear();
    bytes = 0;
  };
  std::string line;
  while (const std::optional<int64_t> length = read_line(in, stream.max_line_bytes, line)) {
    bytes += std::ssize(line);
    const bool whole = *length <= stream.max_line_bytes;
    refusals.push_back(whole ? ""
                             : concat("expected at most ", stream.max_line_bytes, " bytes, found ", *length));
    Source source{.text = whole ? std::move(line) : "",
                  .key = static_cast<uint64_t>(counts.lines) + static_cast<uint64_t>(lines.size()) + 1};
    if (const size_t tab = source.text.find('\t'); stream.prefix_after_tab && tab != std::string::npos) {
      source.prefix = source.text.substr(tab + 1);
      source.text.resize(tab);
    }
    lines.push_back(std::move(source));
    if (std::ssize(lines) >= stream.chunk_lines || bytes >= stream.chunk_bytes) flush();
  }
  if (in.bad()) throw IoError(concat("input: reading failed after line ", counts.lines));
  flush();
  return counts;
}

}  // namespace qkv::pipelines
