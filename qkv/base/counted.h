#pragma once
// Numbers of things, in messages.

#include <cstdint>
#include <string>
#include <string_view>

namespace qkv {

// "pairs" -> "pair", if there is one: the word for a number of things that end in "s", "sses" or "ches".
std::string noun(int64_t number, std::string_view things);

// counted(1, "pairs") -> "1 pair", counted(2000, "pairs") -> "2000 pairs".
std::string counted(int64_t number, std::string_view things);

}  // namespace qkv
