#pragma once
// How a folder's model likes to be decoded: generation_config.json.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/models/config.h"

namespace qkv::models {

// When a sentence that has `beam` finished hypotheses is done.
enum class EarlyStopping : uint8_t {
  // Once the best unfinished one, scored as if it ended here, is no better than the worst finished one:
  // transformers' early_stopping=False. A penalty that favours length can make this stop a little early.
  heuristic,
  // Once no unfinished one could become better however it goes on: transformers' early_stopping="never".
  exact,
  // At once: transformers' early_stopping=True.
  when_full,
};

// As they begin, those of the models that qkv trains.
struct GenerationDefaults {
  int beam = 4;
  double length_penalty = 0.6;
  EarlyStopping early_stopping = EarlyStopping::heuristic;
  int max_length = 512;  // tokens, the start token included
  int min_length = 0;
  int no_repeat_ngram = 0;
  float repetition_penalty = 1;
  double temperature = 1;  // this and the next three are of texts that are drawn at random
  int top_k = 0;
  double top_p = 1, min_p = 0;
  bool renormalize = false;                          // scores, when tokens that may not come are out
  std::vector<std::vector<int32_t>> bad_words = {};  // sequences of ids that never come
};

// Reads generation_config.json; config.json where there is none, as old folders say it there. What neither
// says is as transformers would do it: the likeliest token is taken each time, and nothing is said against
// long outputs or short ones. Throws DataError naming the file.
GenerationDefaults load_generation_defaults(const std::filesystem::path& folder);

// The text of generation_config.json. Padding is a bad word in any case.
std::string generation_json(const TransformerConfig& config, const GenerationDefaults& defaults);

}  // namespace qkv::models
