#pragma once
// The tokenizer of mteval-v13a.pl, as sacreBLEU has it: what published BLEU scores are counted in.

#include <string>
#include <string_view>
#include <vector>

namespace qkv::metrics {

// The tokens of one segment. Drops "<skipped>", joins words hyphenated across lines, resolves &quot; &amp;
// &lt; &gt;, sets ASCII punctuation apart (apostrophes and hyphens stay, except a hyphen after a digit; a
// period or comma between digits stays) and splits at Unicode white space. Invalid UTF-8 is read as U+FFFD.
std::vector<std::string> tokenize_13a(std::string_view segment);

// The same for decoded text, with the tokens in one string, separated by runs of white space.
std::u32string separate_13a(std::u32string_view segment);

}  // namespace qkv::metrics
