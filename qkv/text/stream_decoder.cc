#include "qkv/base/utf8.h"
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

}  // namespace

// Decodes only the last few tokens: those shown last, because a token's text depends on its predecessor (a
// space before it), and those not shown yet.
std::string StreamDecoder::add(int32_t id) {
  if (options_.skip_special_tokens && tokenizer_.is_special(id)) return {};
  ids_.push_back(id);
  const std::string text = tokenizer_.decode(ids_, options_);
  if (text.size() <= shown_.size() || text.ends_with(kReplacementUtf8)) return {};
  std::string part = rest(text, shown_);
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(shown_ids_));
  shown_ids_ = ids_.size();
  shown_ = tokenizer_.decode(ids_, options_);
  return part;
}

std::string StreamDecoder::finish() {
  std::string part = rest(tokenizer_.decode(ids_, options_), shown_);
  ids_.clear();
  shown_ids_ = 0;
  shown_.clear();
  return part;
}

}  // namespace qkv::text
