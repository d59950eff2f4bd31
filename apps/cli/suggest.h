#pragma once
// What a misspelt word was meant to be.

#include <optional>
#include <string>
#include <vector>

namespace qkv::apps {

// The name that takes the fewest edits (insert, delete or replace a character, or swap two neighbours), where
// that is near enough to be meant.
std::optional<std::string> nearest(const std::string& word, const std::vector<std::string>& names);

// "; did you mean 'translate'?", or nothing.
std::string suggestion(const std::string& word, const std::vector<std::string>& names);

// "expected one of f32, bf16, int8, found 'bf61'; did you mean 'bf16'?"
std::string expected_one_of(const std::vector<std::string>& names, const std::string& found);

}  // namespace qkv::apps
