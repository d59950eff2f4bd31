#include "qkv/text/added_tokens.h"

#include <algorithm>

#include "qkv/base/utf8.h"
#include "qkv/text/steps/unicode.h"

namespace qkv::text {
namespace {

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  size_t at = previous_character(text, text.size());
  return is_word_character(next_character(text, at));
}

bool begins_with_word(std::string_view text) {
  size_t at = 0;
  return !text.empty() && is_word_character(next_character(text, at));
}

size_t white_space_before(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t begin = previous_character(text, end);
    size_t at = begin;
    if (!is_white_space(next_character(text, at))) break;
    end = begin;
  }
  return text.size() - end;
}

size_t white_space_behind(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    size_t at = end;
    if (!is_white_space(next_character(text, at))) break;
    end = at;
  }
  return end;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer)
    : tokens_(std::move(tokens)) {
  for (const AddedToken& token : tokens_) {
    NormalizedString text(token.content, 0);
    if (token.normalized && normalizer) normalizer->apply(text);
    spellings_.push_back(text.text());
  }
  std::vector<std::pair<std::string_view, int32_t>> as_given, normalized;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    (tokens_[i].normalized ? normalized : as_given).emplace_back(spellings_[i], static_cast<int32_t>(i));
  }
  as_given_ = ByteTrie(std::move(as_given));
  normalized_ = ByteTrie(std::move(normalized));
}

void AddedTokens::find(std::string_view text, bool normalized, std::vector<Part>& parts) const {
  const ByteTrie& trie = normalized ? normalized_ : as_given_;
  size_t done = 0;
  const auto add = [&](size_t begin, size_t end, int32_t id) {
    if (begin < end) parts.push_back({{static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}, id});
  };
  for (size_t at = trie.empty() ? text.size() : 0; at < text.size();) {
    if (!trie.begins(static_cast<uint8_t>(text[at]))) {
      ++at;
      continue;
    }
    const auto [length, index] = trie.longest_prefix(text.substr(at));
    if (index < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(index)];
    size_t begin = at, end = at + length;
    at = end;
    if (token.single_word && (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(end))))
      continue;
    if (token.lstrip) begin = std::max(begin - white_space_before(text.substr(0, begin)), done);
    if (token.rstrip) end += white_space_behind(text.substr(end));
    add(done, begin, -1);
    add(begin, end, token.id);
    done = end;
  }
  add(done, text.size(), -1);
}

}  // namespace qkv::text
