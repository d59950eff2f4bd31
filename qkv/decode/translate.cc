#include "qkv/decode/translate.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/decode/transformer.h"
#include "qkv/ops/profile.h"
#include "qkv/text/utf8.h"

namespace qkv::decode {
namespace {

TranslatedHypothesis spell(const text::Tokenizer& tokenizer, Hypothesis hypothesis) {
  TranslatedHypothesis result;
  result.text = tokenizer.decode(hypothesis.ids);
  for (const int32_t id : hypothesis.ids) result.tokens.push_back(tokenizer.piece(id));
  result.hypothesis = std::move(hypothesis);
  return result;
}

}  // namespace

TranslateOptions default_options(const models::TranslationModel& model) {
  TranslateOptions options;
  options.search.beam = model.generation.beam;
  options.search.length_penalty = model.generation.length_penalty;
  options.search.max_length = model.generation.max_length - 1;  // the file's counts the start token
  return options;
}

// The ids of a source with its </s>, none where there is nothing to translate.
std::vector<int32_t> Translator::read_source(const std::string& source, const TranslateOptions& options,
                                             Translation& translation) const {
  if (const auto bad = text::first_bad_utf8(source)) {
    translation.error = concat("expected UTF-8, found a malformed character at byte ", *bad);
    return {};
  }
  const text::Tokenizer& tokenizer = *model_.tokenizer;
  std::vector<int32_t> ids = tokenizer.encode_source(source);
  if (ids.empty()) return {};
  ids.push_back(tokenizer.eos_id(text::Side::source));
  translation.source_tokens = static_cast<int64_t>(ids.size());

  int64_t most = options.max_source_tokens;
  if (model_.config.positions != nn::PositionKind::none) {
    most = most > 0 ? std::min(most, model_.config.max_positions) : model_.config.max_positions;
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
  return ids;
}

std::vector<Translation> Translator::translate(std::span<const std::string> sources,
                                               const TranslateOptions& options) const {
  options.search.validate();
  if (options.max_source_tokens < 0 || options.max_source_tokens == 1) {
    throw UsageError(
        concat("max_source_tokens: expected 0 or at least 2, found ", options.max_source_tokens));
  }
  std::vector<Translation> translations(sources.size());
  std::vector<std::vector<int32_t>> ids(sources.size());
  {
    const ProfileScope profile("tokenizing");
    parallel_for(static_cast<int64_t>(sources.size()), 8, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        ids[i] = read_source(sources[i], options, translations[i]);
      }
    });
  }
  std::vector<size_t> kept;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i].empty()) continue;
    if (kept.size() < i) ids[kept.size()] = std::move(ids[i]);
    kept.push_back(i);
  }
  ids.resize(kept.size());

  std::vector<NBest> found = search(*model_.transformer, ids, options.search, options.batch_tokens);
  for (size_t k = 0; k < kept.size(); ++k) {
    Translation& translation = translations[kept[k]];
    for (Hypothesis& hypothesis : found[k]) {
      translation.hypotheses.push_back(spell(*model_.tokenizer, std::move(hypothesis)));
    }
    if (!translation.hypotheses.empty()) translation.text = translation.hypotheses.front().text;
  }
  return translations;
}

StreamCounts translate_lines(const Translator& translator, std::istream& in,
                             const std::function<void(int64_t line, const Translation&)>& sink,
                             const TranslateOptions& options, const StreamOptions& stream) {
  StreamCounts counts;
  std::vector<std::string> lines;
  int64_t bytes = 0;
  const auto flush = [&] {
    for (const Translation& translation : translator.translate(lines, options)) {
      ++counts.lines;
      counts.errors += translation.error.empty() ? 0 : 1;
      counts.truncated += translation.truncated ? 1 : 0;
      sink(counts.lines, translation);
    }
    lines.clear();
    bytes = 0;
  };
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    bytes += static_cast<int64_t>(line.size());
    lines.push_back(std::move(line));
    if (static_cast<int64_t>(lines.size()) >= stream.chunk_lines || bytes >= stream.chunk_bytes) flush();
  }
  if (in.bad()) throw IoError(concat("input: reading failed after line ", counts.lines));
  flush();
  return counts;
}

}  // namespace qkv::decode
