#pragma once
// Patterns for splitting and replacing: a string or a regular expression, as tokenizer files write them.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/text/steps/normalized_string.h"

namespace qkv::text {

class Pattern {
 public:
  virtual ~Pattern() = default;
  // Appends the matches in the text, in order; they do not overlap.
  virtual void find(std::string_view text, std::vector<Range>& matches) const = 0;
};

// Exactly this string; the empty one matches nothing.
std::unique_ptr<const Pattern> literal_pattern(std::string text);

// A regular expression in the dialect of Oniguruma (Ruby), which tokenizer files are written for, matched by
// PCRE2: Unicode classes, `^` and `$` at each line. Throws DataError beginning with `name` where it is
// malformed or uses syntax that PCRE2 interprets differently; find() throws DataError where a match takes
// more than ten million steps.
std::unique_ptr<const Pattern> regex_pattern(const std::string& expression, const std::string& name);

// The pattern that GPT-2 splits text with (Radford et al. 2019): contractions, words, numbers and signs, each
// with the space before it, and runs of white space.
inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace qkv::text
