#pragma once
// Added tokens, which are matched in the text before it is split: special tokens such as [MASK], and added
// words.

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
  bool single_word = false;  // does not match next to a word character
  bool lstrip = false;       // includes preceding white space
  bool rstrip = false;       // includes following white space
  bool normalized = false;   // matched in normalized text, itself normalized
  bool special = false;      // decoding may skip it
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
  // Splits text, raw (normalized = false) or normalized, at the tokens that are matched in that form:
  // leftmost first, then longest. An empty text has no parts.
  void find(std::string_view text, bool normalized, std::vector<Part>& parts) const;

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  // tokens()[i] as it appears in the searched text.
  const std::string& spelling(size_t i) const { return spellings_[i]; }

 private:
  std::vector<AddedToken> tokens_;
  std::vector<std::string> spellings_;
  ByteTrie as_given_, normalized_;  // values are indices into tokens_
};

}  // namespace qkv::text
