#pragma once
// The decoding options that a folder recommends: generation_config.json.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/models/config.h"

namespace qkv::models {

// When a search that has `beam` finished hypotheses is done.
enum class EarlyStopping : uint8_t {
  // Once the best unfinished one, scored as if it ended here, is no better than the worst finished one:
  // transformers' early_stopping=False. A penalty that favours length can make this stop a little early.
  heuristic,
  // Once no unfinished one could become better however it goes on: transformers' early_stopping="never".
  exact,
  // At once: transformers' early_stopping=True.
  when_full,
};

// The defaults are those of the models that qkv trains. Numbers of tokens are of new tokens, the end not
// counted: reading and writing a file converts them.
struct GenerationDefaults {
  int beam = 4;
  double length_penalty = 0.6;
  EarlyStopping early_stopping = EarlyStopping::heuristic;
  int max_new_tokens = 510;
  int min_new_tokens = 0;
  int no_repeat_ngram = 0;
  float repetition_penalty = 1;
  double temperature = 1;  // this and the next three are of sampling
  int top_k = 0;
  double top_p = 1, min_p = 0;
  bool renormalize = false;                          // probabilities of the tokens that may come
  std::vector<std::vector<int32_t>> bad_words = {};  // sequences of ids that never come
};

// Reads generation_config.json; where there is none, the same fields of config.json, as in old folders.
// Fields that are missing have transformers' defaults: greedy search without penalties; without a length,
// outputs end after 510 tokens. A file's max_length counts the start token and the end, its max_new_tokens
// the end; of the two the latter decides. Throws DataError naming the file and the field.
GenerationDefaults load_generation_defaults(const std::filesystem::path& folder);

// The text of generation_config.json. Padding is a bad word in any case.
std::string generation_json(const TransformerConfig& config, const GenerationDefaults& defaults);

}  // namespace qkv::models
