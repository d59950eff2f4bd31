#pragma once
// Search options common to translate and evaluate.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/engine_options.h"
#include "qkv/pipelines/translate.h"

namespace qkv::apps {

// Unset options default to the model folder's, or the library's.
struct DecodeArguments {
  std::optional<int> beam, max_new_tokens, min_new_tokens, no_repeat_ngram;
  std::optional<float> repetition_penalty;
  std::vector<std::string> bad_words;
  std::optional<double> length_penalty;
  double coverage_penalty = 0;
  search::LengthPenaltyType length_penalty_type = search::LengthPenaltyType::power;
  std::optional<std::string> shortlist;
  int64_t max_source_tokens = 0;
  bool truncate = false;
  EngineArguments engine;
};

// `arguments` must live as long as the command.
void add_decode_options(Command& command, DecodeArguments& arguments);

// Throws UsageError for bad options.
pipelines::TranslateOptions translate_options(const models::TranslationModel& model,
                                              const DecodeArguments& arguments);

}  // namespace qkv::apps
