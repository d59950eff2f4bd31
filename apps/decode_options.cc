#include "apps/decode_options.h"

#include "qkv/base/error.h"
#include "qkv/pipelines/search_defaults.h"

namespace qkv::apps {

void add_decode_options(CLI::App& command, DecodeArguments& arguments) {
  command
      .add_option("--beam", arguments.beam,
                  "Hypotheses kept at each step; 1 is greedy search (default: the model's)")
      ->type_name("N");
  command
      .add_option("--length-penalty", arguments.length_penalty,
                  "Length penalty: larger values favour longer translations (default: the model's)")
      ->type_name("ALPHA");
  add_choice<decltype(arguments.length_penalty_type), search::LengthPenaltyType>(
      command, "--length-penalty-type", arguments.length_penalty_type,
      {{"transformers", search::LengthPenaltyType::power}, {"gnmt", search::LengthPenaltyType::gnmt}},
      "Divisor of a translation's log-probability (default: transformers)\n"
      "  transformers: length ^ alpha\n"
      "  gnmt: ((5 + length) / 6) ^ alpha (Wu et al. 2016)");
  command
      .add_option("--coverage-penalty", arguments.coverage_penalty,
                  "Coverage penalty: penalise untranslated source words (Wu et al. 2016; default: 0)")
      ->type_name("BETA");
  command
      .add_option("--max-new-tokens", arguments.max_new_tokens,
                  "Maximum length of a translation, its end not counted (default: the model's)")
      ->type_name("TOKENS");
  command
      .add_option("--min-new-tokens", arguments.min_new_tokens,
                  "Minimum length of a translation, its end not counted (default: the model's)")
      ->type_name("TOKENS");
  command
      .add_option("--no-repeat-ngram", arguments.no_repeat_ngram,
                  "Never repeat an n-gram of this size; 0: off (default: the model's)")
      ->type_name("TOKENS");
  command
      .add_option("--repetition-penalty", arguments.repetition_penalty,
                  "Above 1: repeated tokens become less likely (default: the model's)")
      ->type_name("FACTOR");
  command
      .add_option("--forbid", arguments.bad_words,
                  "Words that no translation may contain; may be given several times")
      ->type_name("TEXT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--shortlist", arguments.shortlist,
                  "Restrict the output vocabulary by this lexical shortlist ('qkv shortlist')")
      ->type_name("FILE");
  command
      .add_option("--max-source-tokens", arguments.max_source_tokens,
                  "Maximum length of a line, its end included (default: the model's positions)")
      ->type_name("TOKENS");
  command.add_flag("--truncate", arguments.truncate,
                   "Cut longer lines, with a warning, in place of an error");
  command
      .add_option("--batch-tokens", arguments.engine.batch_tokens,
                  "Source tokens translated side by side: memory against speed, never the results")
      ->type_name("TOKENS")
      ->capture_default_str();
}

pipelines::TranslateOptions translate_options(const models::TranslationModel& model,
                                              const DecodeArguments& arguments) {
  pipelines::TranslateOptions options = pipelines::default_options(model);
  search::SearchOptions& search = options.search;
  search.beam = arguments.beam.value_or(search.beam);
  search.length_penalty = arguments.length_penalty.value_or(search.length_penalty);
  search.length_penalty_type = arguments.length_penalty_type;
  search.coverage_penalty = arguments.coverage_penalty.value_or(search.coverage_penalty);
  search.max_new_tokens = arguments.max_new_tokens.value_or(search.max_new_tokens);
  search.min_new_tokens = arguments.min_new_tokens.value_or(search.min_new_tokens);
  search.no_repeat_ngram = arguments.no_repeat_ngram.value_or(search.no_repeat_ngram);
  search.repetition_penalty = arguments.repetition_penalty.value_or(search.repetition_penalty);
  try {
    for (std::vector<int32_t>& ids : pipelines::bad_words(*model.tokenizer, arguments.bad_words))
      search.bad_words.push_back(std::move(ids));
  } catch (const UsageError& error) {
    throw UsageError(concat("--forbid: ", error.what()));
  }
  if (arguments.shortlist) search.shortlist = pipelines::load_shortlist(*arguments.shortlist, model.config);
  options.max_source_tokens = arguments.max_source_tokens.value_or(options.max_source_tokens);
  options.truncate = arguments.truncate;
  return options;
}

}  // namespace qkv::apps
