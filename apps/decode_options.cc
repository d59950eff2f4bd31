#include "apps/decode_options.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/pipelines/search_defaults.h"

namespace qkv::apps {

void add_decode_options(Command& command, DecodeArguments& arguments) {
  add_option(command, "--beam", arguments.beam, "N",
             "Hypotheses kept at each step; 1: greedy search (default: the model's)");
  add_option(command, "--length-penalty", arguments.length_penalty, "ALPHA",
             "Length penalty: larger values favour longer translations (default: the model's)");
  add_choice(command, "--length-penalty-type", arguments.length_penalty_type,
             {{"transformers", search::LengthPenaltyType::power}, {"gnmt", search::LengthPenaltyType::gnmt}},
             "Divisor of a translation's log-probability\n"
             "  transformers: length ^ alpha\n"
             "  gnmt: ((5 + length) / 6) ^ alpha (Wu et al. 2016)");
  add_option(command, "--coverage-penalty", arguments.coverage_penalty, "BETA",
             "Coverage penalty: penalise untranslated source words (Wu et al. 2016); 0: off");
  add_option(command, "--max-new-tokens", arguments.max_new_tokens, "TOKENS",
             "Maximum length of a translation, its end token not counted (default: the model's)");
  add_option(command, "--min-new-tokens", arguments.min_new_tokens, "TOKENS",
             "Minimum length of a translation, its end token not counted (default: the model's)");
  add_option(command, "--no-repeat-ngram", arguments.no_repeat_ngram, "TOKENS",
             "Never repeat an n-gram of this size; 0: off (default: the model's)");
  add_option(command, "--repetition-penalty", arguments.repetition_penalty, "FACTOR",
             "Above 1: repeated tokens become less likely; 1: off (default: the model's)");
  add_option(command, "--forbid", arguments.bad_words, "TEXT",
             "Words that no translation may contain; may be given several times (default: none)");
  add_option(command, "--shortlist", arguments.shortlist, "FILE",
             "Restrict the output vocabulary by this lexical shortlist, see 'qkv shortlist' (default: none)");
  add_option(command, "--max-source-tokens", arguments.max_source_tokens, "TOKENS",
             "Maximum length of a line, its end token included; 0: the model's positions");
  command.add_flag("--truncate", arguments.truncate,
                   "Truncate longer lines with a warning instead of an error");
  add_engine_options(command, arguments.engine);
}

pipelines::TranslateOptions translate_options(const models::TranslationModel& model,
                                              const DecodeArguments& arguments) {
  pipelines::TranslateOptions options = pipelines::default_options(model);
  search::SearchOptions& search = options.search;
  search.beam = arguments.beam.value_or(search.beam);
  search.length_penalty = arguments.length_penalty.value_or(search.length_penalty);
  search.length_penalty_type = arguments.length_penalty_type;
  search.coverage_penalty = arguments.coverage_penalty;
  search.max_new_tokens = arguments.max_new_tokens.value_or(search.max_new_tokens);
  search.min_new_tokens =
      arguments.min_new_tokens.value_or(std::min(search.min_new_tokens, search.max_new_tokens));
  search.no_repeat_ngram = arguments.no_repeat_ngram.value_or(search.no_repeat_ngram);
  search.repetition_penalty = arguments.repetition_penalty.value_or(search.repetition_penalty);
  try {
    for (std::vector<int32_t>& ids : pipelines::bad_words(*model.tokenizer, arguments.bad_words))
      search.bad_words.push_back(std::move(ids));
  } catch (const UsageError& error) {
    throw UsageError(concat("--forbid: ", error.what()));
  }
  if (arguments.shortlist) search.shortlist = pipelines::load_shortlist(*arguments.shortlist, model.config);
  options.max_source_tokens = arguments.max_source_tokens;
  options.truncate = arguments.truncate;
  return options;
}

}  // namespace qkv::apps
