#pragma once
// Conversions between ids and texts that several pipelines share.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/pipelines/open_model.h"

namespace qkv::pipelines {

// The tokens of ids, as spelled in the vocabulary; "" for an id without a token.
inline std::vector<std::string> pieces(const text::Tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::vector<std::string> result;
  result.reserve(ids.size());
  for (const int32_t id : ids) result.emplace_back(tokenizer.token(id).value_or(""));
  return result;
}

inline std::vector<std::string> pieces(const text::TranslationTokenizer& tokenizer,
                                       std::span<const int32_t> ids, text::Side side) {
  std::vector<std::string> result;
  result.reserve(ids.size());
  for (const int32_t id : ids) result.emplace_back(tokenizer.piece(id, side));
  return result;
}

// The special tokens of a source: TranslationTokenizer::around_source(), without </s> if the model was
// trained so.
inline text::Around around_source(const models::TranslationModel& model, std::string_view language = {}) {
  text::Around around = model.tokenizer->around_source(language);
  if (!model.config.source_eos) around.after.clear();
  return around;
}

// The source of an encoder-decoder: a text's tokens with these around them. Empty for a text without tokens.
inline std::vector<int32_t> source_ids(const models::TranslationModel& model, std::string_view text,
                                       const text::Around& around) {
  std::vector<int32_t> ids = model.tokenizer->encode_source(text);
  if (ids.empty()) return ids;
  ids.insert(ids.begin(), around.before.begin(), around.before.end());
  ids.insert(ids.end(), around.after.begin(), around.after.end());
  return ids;
}

// The target of a pair: the token with which the model's outputs begin, if it has one (BART: <s>), the
// text's tokens, and </s>.
inline std::vector<int32_t> target_ids(const models::TranslationModel& model, std::string_view text,
                                       std::optional<int32_t> first) {
  std::vector<int32_t> ids = model.tokenizer->encode_target(text);
  if (first) ids.insert(ids.begin(), *first);
  ids.push_back(model.tokenizer->eos_id());
  return ids;
}

// The prompt in place of an empty one: a language model's start token, if it has one.
inline std::vector<int32_t> first_ids(const LoadedLanguageModel& model) {
  const std::vector<int32_t>& beginnings = model.model->config().bos_ids;
  return beginnings.empty() ? std::vector<int32_t>() : std::vector<int32_t>{beginnings.front()};
}

// The ids of a text for a language model.
inline std::vector<int32_t> prompt_ids(const LoadedLanguageModel& model, const std::string& text,
                                       bool special_tokens = true) {
  text::EncodeOptions options;
  options.special_tokens = special_tokens;
  std::vector<int32_t> ids = model.tokenizer.encode(text, options).ids;
  return ids.empty() ? first_ids(model) : ids;
}

}  // namespace qkv::pipelines
