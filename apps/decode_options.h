#pragma once
// How to search for translations: the options that the commands share.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/command.h"
#include "qkv/pipelines/translate.h"

namespace qkv::apps {

// What is not given is as the model's folder says, or as the library has it.
struct DecodeArguments {
  std::optional<int> beam, max_new_tokens, min_new_tokens, no_repeat_ngram;
  std::optional<float> repetition_penalty;
  std::vector<std::string> suppress_tokens;  // text that never comes
  std::optional<double> length_penalty, coverage_penalty;
  search::LengthPenaltyType length_penalty_type = search::LengthPenaltyType::power;
  std::optional<std::string> shortlist;
  std::optional<int64_t> batch_tokens, max_source_tokens;
  bool truncate = false;
};

// `arguments` has to live as long as the command.
void add_decode_options(CLI::App& command, DecodeArguments& arguments);

pipelines::TranslateOptions translate_options(const models::TranslationModel& model,
                                              const DecodeArguments& arguments);

}  // namespace qkv::apps
