#pragma once
// How a folder's model likes to be decoded: generation_config.json.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/models/config.h"

namespace qkv::models {

struct GenerationDefaults {
  int beam = 4;
  double length_penalty = 0.6;
  int max_length = 512;                              // tokens, the start token included
  std::vector<std::vector<int32_t>> bad_words = {};  // sequences of ids that never come
};

// Reads generation_config.json; config.json where there is none, as old folders say it there. What neither
// says is as in `otherwise`. Throws DataError naming the file.
GenerationDefaults load_generation_defaults(const std::filesystem::path& folder,
                                            const GenerationDefaults& otherwise = {});

// The text of generation_config.json. Padding is a bad word in any case.
std::string generation_json(const TransformerConfig& config, const GenerationDefaults& defaults);

}  // namespace qkv::models
