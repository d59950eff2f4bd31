#pragma once
// The tokenizer of mteval-v13a.pl as implemented in sacreBLEU, the standard for published BLEU scores.

#include <string>
#include <string_view>
#include <vector>

namespace qkv::metrics {

// The tokens of one segment. Removes "<skipped>", joins words hyphenated across lines, resolves &quot; &amp;
// &lt; &gt;, separates ASCII punctuation (but not apostrophes and hyphens, unless a hyphen follows a digit,
// nor periods and commas between digits) and splits at Unicode white space. Invalid UTF-8 is read as U+FFFD.
std::vector<std::string> tokenize_13a(std::string_view segment);

// Likewise for decoded text; returns one string of tokens separated by runs of white space.
std::u32string separate_13a(std::u32string_view segment);

}  // namespace qkv::metrics
