#pragma once
// Names of other programs for options, settings and commands of qkv.

#include <string>
#include <string_view>
#include <vector>

namespace qkv::apps {

// "< FILE" and "> FILE": how commands that read lines are given files.
inline constexpr const char* kReadFile = "< FILE";
inline constexpr const char* kWriteFile = "> FILE";

// qkv's names for the option, setting or command that transformers, llama.cpp, CTranslate2, Marian, fairseq,
// OpenNMT, sentence-transformers, SentencePiece or vLLM call `theirs`, the likeliest first. All are without
// dashes before them, and with dashes instead of underscores.
std::vector<std::string_view> names_for_peers(std::string_view theirs);

}  // namespace qkv::apps
