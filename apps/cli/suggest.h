#pragma once
// Suggestions for misspelt words and for those of other programs.

#include <optional>
#include <string>
#include <vector>

namespace qkv::apps {

// The name that differs in dashes and underscores only; else the one that other programs call `word`
// (peer_names.h); else the one with the smallest edit distance (insertions, deletions, replacements, swaps of
// neighbours), if it is close enough.
std::optional<std::string> nearest(const std::string& word, const std::vector<std::string>& names);

// "; did you mean 'translate'?", or nothing.
std::string suggestion(const std::string& word, const std::vector<std::string>& names);

// "expected one of f32, bf16, f16, int8, found 'bf61'; did you mean 'bf16'?"
std::string expected_one_of(const std::vector<std::string>& names, const std::string& found);

}  // namespace qkv::apps
