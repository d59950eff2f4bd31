#include "apps/decode_options.h"

#include <memory>

#include "qkv/base/error.h"

namespace qkv::apps {
namespace {

std::shared_ptr<const search::Shortlist> load_shortlist(const std::string& path,
                                                        const models::TransformerConfig& config) {
  auto shortlist = std::make_shared<const search::Shortlist>(search::Shortlist::load(path));
  if (shortlist->source_vocabulary() != config.source_vocabulary ||
      shortlist->target_vocabulary() != config.target_vocabulary) {
    throw DataError(concat(path, ": expected a shortlist for the model's ", config.source_vocabulary, " and ",
                           config.target_vocabulary, " tokens, found one for ",
                           shortlist->source_vocabulary(), " and ", shortlist->target_vocabulary()));
  }
  return shortlist;
}

}  // namespace

void add_decode_options(CLI::App& command, DecodeArguments& arguments) {
  command.add_option("--beam", arguments.beam,
                     "Hypotheses kept at each step; 1 is greedy (default: the model's)");
  command.add_option("--length-penalty", arguments.length_penalty,
                     "Length penalty: larger values favour longer translations (default: the model's)");
  add_choice<decltype(arguments.length_penalty_type), search::LengthPenaltyType>(
      command, "--length-penalty-type", arguments.length_penalty_type,
      {{"transformers", search::LengthPenaltyType::power}, {"gnmt", search::LengthPenaltyType::gnmt}},
      "Scores are log P divided by (default: transformers)\n"
      "  transformers: length ^ penalty\n"
      "  gnmt: ((5 + length) / 6) ^ penalty (Wu et al. 2016)");
  command.add_option(
      "--coverage-penalty", arguments.coverage_penalty,
      "Coverage penalty: penalise untranslated source words (Wu et al. 2016, beta; default: 0)");
  command.add_option("--max-new-tokens", arguments.max_new_tokens,
                     "Most tokens of a translation, its end not counted (default: the model's)");
  command.add_option("--min-new-tokens", arguments.min_new_tokens,
                     "Fewest tokens of a translation, its end not counted (default: the model's)");
  command.add_option("--no-repeat-ngram", arguments.no_repeat_ngram,
                     "Never repeat an n-gram of this size (0: off; default: the model's)");
  command.add_option("--repetition-penalty", arguments.repetition_penalty,
                     "Above 1: tokens that have come already become less likely (default: the model's)");
  command
      .add_option("--forbid", arguments.suppress_tokens, "Words that never come; may be given several times")
      ->type_name("TEXT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--shortlist", arguments.shortlist,
                  "Restrict the output vocabulary with a lexical shortlist ('qkv shortlist')")
      ->type_name("FILE");
  command.add_option("--max-source-tokens", arguments.max_source_tokens,
                     "Most tokens of a line, its end included (default: what the model has positions for)");
  command.add_flag("--truncate", arguments.truncate, "Cut lines that are too long, and say so");
  command.add_option("--batch-tokens", arguments.batch_tokens,
                     "Source tokens translated side by side: memory against speed (default: 1024)");
}

pipelines::TranslateOptions translate_options(const models::TranslationModel& model,
                                              const DecodeArguments& arguments) {
  pipelines::TranslateOptions options = pipelines::default_options(model);
  options.search.beam = arguments.beam.value_or(options.search.beam);
  options.search.length_penalty = arguments.length_penalty.value_or(options.search.length_penalty);
  options.search.length_penalty_type = arguments.length_penalty_type;
  options.search.coverage_penalty = arguments.coverage_penalty.value_or(options.search.coverage_penalty);
  options.search.max_new_tokens = arguments.max_new_tokens.value_or(options.search.max_new_tokens);
  options.search.min_new_tokens = arguments.min_new_tokens.value_or(options.search.min_new_tokens);
  options.search.no_repeat_ngram = arguments.no_repeat_ngram.value_or(options.search.no_repeat_ngram);
  options.search.repetition_penalty =
      arguments.repetition_penalty.value_or(options.search.repetition_penalty);
  for (const std::string& text : arguments.suppress_tokens) {
    options.search.bad_words.push_back(model.tokenizer->encode_target(text));
    if (options.search.bad_words.back().empty()) {
      throw UsageError(concat("--forbid: expected text that the vocabulary can spell, found \"", text, "\""));
    }
  }
  if (arguments.shortlist) options.search.shortlist = load_shortlist(*arguments.shortlist, model.config);
  options.batch_tokens = arguments.batch_tokens.value_or(options.batch_tokens);
  options.max_source_tokens = arguments.max_source_tokens.value_or(options.max_source_tokens);
  options.truncate = arguments.truncate;
  return options;
}

}  // namespace qkv::apps
