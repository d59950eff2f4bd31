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

// Tokens that wait for the rest of a character at most. A character that is not complete after three more
// never is; more wait, so that half of them can be dropped and the last three characters be those of all.
constexpr size_t kMostWaiting = 32;

// The length of a text without its last three characters, which are all that later bytes may change: a token
// of one byte gives at most one, and a character has at most three bytes before its last.
size_t length_before_open(std::string_view text) {
  size_t end = text.size();
  for (int i = 0; i < 3 && end > 0; ++i) end = previous_character(text, end);
  return end;
}

}  // namespace

// Decodes only the last few tokens: those shown last, because a token's text depends on its predecessor (a
// space before it), and those not shown yet. Of a long invalid run, only the end waits.
std::string StreamDecoder::add(int32_t id) {
  if (options_.skip_special_tokens && tokenizer_.is_special(id)) return {};
  ids_.push_back(id);
  const std::string text = tokenizer_.decode_as_is(ids_, options_);
  if (text.size() <= shown_.size()) return {};
  const bool open = text.ends_with(kReplacementUtf8);
  if (open && ids_.size() - shown_ids_ < kMostWaiting) return {};
  const std::string_view end = std::string_view(text).substr(open ? length_before_open(text) : text.size());
  std::string part = rest(text, shown_);
  if (open && part.size() <= end.size()) return {};
  part.resize(part.size() - end.size());
  shown_ = text.substr(0, text.size() - end.size());
  // The ids that are kept must give the same end.
  const size_t kept = open ? kMostWaiting / 2 : ids_.size() - shown_ids_;
  std::vector<int32_t> ids(ids_.end() - static_cast<std::ptrdiff_t>(kept), ids_.end());
  if (std::string last = tokenizer_.decode_as_is(ids, options_); last.ends_with(end)) {
    last.resize(last.size() - end.size());
    shown_ = std::move(last);
    ids_ = std::move(ids);
  }
  shown_ids_ = ids_.size() - (open ? kept : 0);
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
