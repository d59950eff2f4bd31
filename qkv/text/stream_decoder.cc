#include <utility>

#include "qkv/base/utf8.h"
#include "qkv/text/steps/decoders.h"
#include "qkv/text/tokenizer.h"

namespace qkv::text {
namespace {

// The part of `text` after `shown`. Bytes already shown as characters may turn out to belong to an invalid
// UTF-8 run; then the number of characters shown counts.
std::string rest(const std::string& text, const std::string& shown) {
  if (text.starts_with(shown)) return text.substr(shown.size());
  size_t at = 0;
  for (size_t left = count_characters(shown); left > 0 && at < text.size(); --left) next_character(text, at);
  return text.substr(at);
}

// The length of the beginning of a text in which later text removes no space: up to the last word's space,
// and to that of quotes before it.
size_t final_length(std::string_view text) {
  size_t end = text.rfind(' ');
  if (end == text.npos) return 0;
  while (end > 0 && (text[end - 1] == ' ' || text.substr(0, end).ends_with(" '"))) --end;
  return end;
}

}  // namespace

// Decodes only the last few tokens: those shown last, because a token's text depends on its predecessor (a
// space before it), and those not shown yet.
std::string StreamDecoder::add(int32_t id) {
  if (options_.skip_special_tokens && tokenizer_.is_special(id)) return {};
  ids_.push_back(id);
  const std::string text = tokenizer_.decode_as_is(ids_, options_);
  if (text.size() <= shown_.size() || text.ends_with(kReplacementUtf8)) return {};
  std::string part = rest(text, shown_);
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(shown_ids_));
  shown_ids_ = ids_.size();
  shown_ = tokenizer_.decode_as_is(ids_, options_);
  if (!tokenizer_.cleans_up()) return part;
  held_ += part;
  const size_t length = final_length(held_);
  return without_extra_spaces(std::exchange(held_, held_.substr(length)).substr(0, length));
}

void StreamDecoder::skip(std::span<const int32_t> ids) {
  for (const int32_t id : ids) add(id);
  held_.clear();
}

std::string StreamDecoder::finish() {
  std::string part = held_ + rest(tokenizer_.decode_as_is(ids_, options_), shown_);
  ids_.clear();
  shown_ids_ = 0;
  shown_.clear();
  held_.clear();
  return tokenizer_.cleans_up() ? without_extra_spaces(std::move(part)) : part;
}

}  // namespace qkv::text
