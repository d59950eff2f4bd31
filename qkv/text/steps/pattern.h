#pragma once
// Patterns for splitting and replacing: literal strings and regular expressions of tokenizer files.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/text/steps/normalized_string.h"

namespace qkv::text {

class Pattern {
 public:
  virtual ~Pattern() = default;
  // Appends all matches, in order, without overlap.
  virtual void find(std::string_view text, std::vector<Range>& matches) const = 0;
};

// Matches exactly this string; the empty string matches nothing.
std::unique_ptr<const Pattern> literal_pattern(std::string text);

// A regular expression in Oniguruma's dialect (Ruby), which tokenizer files use, matched by PCRE2: Unicode
// classes, `^` and `$` at each line. Throws DataError beginning with `name` if it is malformed or uses syntax
// that PCRE2 interprets differently; find() throws DataError if a match takes more than ten million steps.
std::unique_ptr<const Pattern> regex_pattern(const std::string& expression, const std::string& name);

// Whether the whole text matches a regular expression of Python's re module, read by PCRE2. Throws the errors
// of regex_pattern().
bool matches_python(const std::string& expression, std::string_view text, const std::string& name);

// GPT-2's pattern (Radford et al. 2019): contractions, words, numbers and symbols, each with the preceding
// space, and runs of white space.
inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace qkv::text
