#pragma once
// Recommended decoding options of a folder: generation_config.json.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/models/config.h"

namespace qkv::models {

// When to stop a beam search that has `beam` finished hypotheses.
enum class EarlyStopping : uint8_t {
  // When the best unfinished hypothesis, scored at its current length, is no better than the worst finished
  // one: early_stopping=False in transformers. With a penalty that favours length, this may stop slightly too
  // early.
  heuristic,
  // When no unfinished hypothesis can become better: early_stopping="never" in transformers.
  exact,
  // Immediately: early_stopping=True in transformers.
  when_full,
};

// The defaults are those of models trained by qkv. Numbers of tokens count new tokens without the end token;
// reading and writing files converts them.
struct GenerationDefaults {
  int beam = 4;
  double length_penalty = 0.6;
  EarlyStopping early_stopping = EarlyStopping::heuristic;
  int max_new_tokens = 510;
  int min_new_tokens = 0;
  int no_repeat_ngram = 0;
  float repetition_penalty = 1;
  double temperature = 1;  // the sampling options, to min_p
  int top_k = 0;
  double top_p = 1, min_p = 0;
  bool renormalize = false;                          // renormalise the probabilities of allowed tokens
  std::vector<std::vector<int32_t>> bad_words = {};  // token sequences that must not occur
};

// Reads generation_config.json; if it is missing, the same fields of config.json, as in old folders. Missing
// fields have transformers' defaults: greedy search without penalties. Without a length, outputs end after
// 510 tokens. max_length in a file includes the start and end tokens, max_new_tokens the end token;
// max_new_tokens takes precedence. Throws DataError naming the file and the field.
GenerationDefaults load_generation_defaults(const std::filesystem::path& folder);

// The content of generation_config.json. Padding is always listed as a bad word.
std::string generation_json(const TransformerConfig& config, const GenerationDefaults& defaults);

}  // namespace qkv::models
