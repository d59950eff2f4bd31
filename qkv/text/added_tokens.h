#pragma once
// Tokens that are found in the text itself, before it is cut: special ones such as [MASK], and added words.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/text/steps/normalizers.h"
#include "qkv/text/token_models/byte_trie.h"

namespace qkv::text {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;  // no match beside a word character
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // and behind it
  bool normalized = false;   // matched in normalized text, in its own normalized form
  bool special = false;      // may be left out when decoding
};

class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer);

  // A part of a text: an added token, or the text between two of them (id -1).
  struct Part {
    Range range;
    int32_t id = -1;
  };
  // Cuts text, as given (normalized = false) or normalized, at the tokens that are matched in that form: the
  // leftmost first, of those the longest. Empty text has no parts.
  void find(std::string_view text, bool normalized, std::vector<Part>& parts) const;

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  // tokens()[i] as it appears in the searched text.
  const std::string& spelling(size_t i) const { return spellings_[i]; }

 private:
  std::vector<AddedToken> tokens_;
  std::vector<std::string> spellings_;
  ByteTrie as_given_, normalized_;  // of places in tokens_
};

}  // namespace qkv::text
