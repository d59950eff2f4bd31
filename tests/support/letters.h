#pragma once
// A tokenizer of single characters.

#include <nlohmann/json.hpp>
#include <string>

#include "qkv/text/tokenizer.h"

namespace qkv::testing {

// A tokenizer.json: <unk> is 0, the characters (ASCII) follow from 1. start: a character that the tokenizer
// puts before a text; 0: none.
inline std::string letters_json(const std::string& characters, char start = 0) {
  nlohmann::ordered_json vocabulary{{"<unk>", 0}};
  for (const char c : characters) vocabulary[std::string(1, c)] = vocabulary.size();
  nlohmann::ordered_json steps;
  if (start != 0) {
    const std::string token(1, start);
    const nlohmann::ordered_json before{{"SpecialToken", {{"id", token}, {"type_id", 0}}}},
        text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
    const nlohmann::ordered_json entry{
        {"id", token}, {"ids", {characters.find(start) + 1}}, {"tokens", {token}}};
    steps = {{"type", "TemplateProcessing"},
             {"single", {before, text}},
             {"pair", {before, text, {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
             {"special_tokens", {{token, entry}}}};
  }
  return nlohmann::ordered_json{
      {"version", "1.0"},
      {"added_tokens", nlohmann::ordered_json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Split"},
        {"pattern", {{"Regex", "[\\s\\S]"}}},
        {"behavior", "Isolated"},
        {"invert", false}}},
      {"post_processor", steps},
      {"decoder", {{"type", "Fuse"}}},
      {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}}}}
      .dump();
}

inline text::Tokenizer letters(const std::string& characters) {
  return text::Tokenizer::from_json(letters_json(characters), "letters");
}

}  // namespace qkv::testing
