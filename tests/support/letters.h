#pragma once
// A tokenizer of single characters.

#include <nlohmann/json.hpp>
#include <string>

#include "qkv/text/tokenizer.h"

namespace qkv::testing {

// A tokenizer.json: <unk> is 0, the characters (ASCII) follow from 1.
inline std::string letters_json(const std::string& characters) {
  nlohmann::ordered_json vocabulary{{"<unk>", 0}};
  for (const char c : characters) vocabulary[std::string(1, c)] = vocabulary.size();
  return nlohmann::ordered_json{
      {"version", "1.0"},
      {"added_tokens", nlohmann::ordered_json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "[\\s\\S]"}}}, {"behavior", "Isolated"}, {"invert", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "Fuse"}}},
      {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}}}}
      .dump();
}

inline text::Tokenizer letters(const std::string& characters) {
  return text::Tokenizer::from_json(letters_json(characters), "letters");
}

}  // namespace qkv::testing
