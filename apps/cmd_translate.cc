#include <unistd.h>

#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/command.h"
#include "apps/decode_options.h"
#include "apps/profile_report.h"
#include "apps/sampling_options.h"
#include "apps/trace_file.h"
#include "qkv/base/error.h"
#include "qkv/pipelines/translate.h"

namespace qkv::apps {
namespace {

using pipelines::TranslatedHypothesis;
using pipelines::Translation;

struct Arguments {
  std::string model;
  models::LoadOptions load;
  DecodeArguments decode;
  std::optional<int> nbest, alternatives;
  std::optional<int64_t> chunk_lines;
  SamplingArguments sampling;
  std::vector<std::string> ensemble;
  std::optional<std::string> trace;
  bool prefixes = false, alignments = false, scores = false, json = false, profile = false;
};

nlohmann::ordered_json to_json(int64_t line, const Translation& translation, const Arguments& arguments) {
  nlohmann::ordered_json result{{"line", line}};
  if (!translation.error.empty()) {
    result["error"] = translation.error;
    return result;
  }
  result["translation"] = translation.text;
  if (translation.truncated) result["truncated"] = true;
  if (arguments.alignments) result["source_tokens"] = translation.source_pieces;
  result["hypotheses"] = nlohmann::ordered_json::array();
  for (const TranslatedHypothesis& one : translation.hypotheses) {
    nlohmann::ordered_json hypothesis{{"text", one.text}, {"score", one.hypothesis.score}};
    if (arguments.scores || arguments.alignments) hypothesis["tokens"] = one.tokens;
    if (arguments.scores) {
      hypothesis["log_probability"] = one.hypothesis.log_probability;
      hypothesis["complete"] = one.hypothesis.complete;
      hypothesis["token_log_probabilities"] = one.hypothesis.token_log_probabilities;
    }
    if (arguments.alignments) hypothesis["alignment"] = one.alignment;
    result["hypotheses"].push_back(std::move(hypothesis));
  }
  return result;
}

// "[line <tab>] [score <tab>] text [ ||| alignment]": the line's number where there may be several
// translations of one.
void print_text(int64_t line, const Translation& translation, int nbest, const Arguments& arguments) {
  const auto print = [&](const TranslatedHypothesis& one) {
    if (nbest > 1) std::cout << line << '\t';
    if (arguments.scores) std::cout << std::fixed << std::setprecision(6) << one.hypothesis.score << '\t';
    std::cout << one.text;
    if (arguments.alignments) std::cout << " |||";
    for (size_t i = 0; i < one.alignment.size(); ++i) std::cout << ' ' << one.alignment[i] << '-' << i;
    std::cout << '\n';
  };
  if (translation.hypotheses.empty()) print({});
  for (const TranslatedHypothesis& one : translation.hypotheses) print(one);
}

pipelines::TranslateOptions options_of(const models::TranslationModel& model, const Arguments& arguments) {
  pipelines::TranslateOptions options = translate_options(model, arguments.decode);
  options.search.nbest = arguments.nbest.value_or(options.search.nbest);
  if (arguments.alternatives) {
    options.search.alternatives = true;
    options.search.nbest = *arguments.alternatives;
  }
  options.alignment = arguments.alignments;
  options.trace = arguments.trace.has_value();
  options.search.sampling = arguments.sampling.sampling(model.generation);
  if (options.search.sampling && !arguments.decode.beam) options.search.beam = 1;
  options.search.validate();
  return options;
}

void translate(const Arguments& arguments) {
  const models::TranslationModel model = models::load_translation_model(arguments.model, arguments.load);
  const pipelines::TranslateOptions options = options_of(model, arguments);
  std::vector<models::TranslationModel> others;
  for (const std::string& folder : arguments.ensemble)
    others.push_back(models::load_translation_model(folder, arguments.load));
  std::vector<const models::TranslationModel*> models{&model};
  for (const models::TranslationModel& other : others) models.push_back(&other);
  const pipelines::Translator translator(models);
  std::optional<TraceFile> trace;
  if (arguments.trace) trace.emplace(*arguments.trace, *model.tokenizer);
  const bool interactive = ::isatty(STDIN_FILENO) == 1;
  pipelines::StreamOptions stream;
  stream.prefix_after_tab = arguments.prefixes;
  stream.chunk_lines = arguments.chunk_lines.value_or(interactive ? 1 : stream.chunk_lines);
  if (stream.chunk_lines < 1) {
    throw UsageError(concat("--chunk-lines: expected at least 1, found ", stream.chunk_lines));
  }
  std::ios::sync_with_stdio(false);
  std::cin.tie(nullptr);

  const auto print = [&](int64_t line, const Translation& translation) {
    if (!translation.error.empty()) std::cerr << "qkv: line " << line << ": " << translation.error << '\n';
    if (translation.truncated) {
      std::cerr << "qkv: line " << line << ": only the first tokens of " << translation.source_tokens
                << " were translated\n";
    }
    if (arguments.json) {
      // What is no UTF-8 can come out of byte pieces.
      std::cout << to_json(line, translation, arguments)
                       .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                << '\n';
    } else {
      print_text(line, translation, options.search.nbest, arguments);
    }
    if (trace) trace->add(line, translation);
    if (line % stream.chunk_lines == 0) std::cout.flush();
    if (!std::cout) throw IoError("cannot write to stdout: is the disk full?");
  };
  std::optional<Profile> profile;
  reset_allocator_peak();
  if (arguments.profile) profile.emplace();
  const pipelines::StreamCounts counts = translate_lines(translator, std::cin, print, options, stream);
  if (trace) trace->close();
  if (profile) {
    std::cout.flush();
    const ProfileReport report(*profile);
    std::cerr << (arguments.json ? report.json().dump() + "\n" : report.text(Style::for_stderr()));
  }
  if (counts.errors > 0) {
    std::cout.flush();
    std::cerr << "qkv: " << counts.errors << " of " << counts.lines << " lines could not be translated\n";
    throw ExitStatus{1};
  }
}

}  // namespace

void add_translate(CLI::App& app) {
  CLI::App* command = add_command(app, "translate",
                                  "Translate text from stdin to stdout, line by line.\n"
                                  "An empty line gives an empty line. A line that is not UTF-8 or too long "
                                  "gives an empty line and a message\n"
                                  "on stderr, the others are translated, and the exit status is 1. Results "
                                  "depend neither on the batch size\n"
                                  "nor on the number of threads.",
                                  "qkv translate model < test.en > test.de");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("model", arguments->model, "Model folder")->required()->type_name("DIR");
  add_weights_option(*command, arguments->load.weights);
  add_decode_options(*command, arguments->decode);
  CLI::Option* nbest = command->add_option(
      "--nbest", arguments->nbest,
      "Translations printed for each line, best first, after the line's number and a tab");
  command
      ->add_option(
          "--alternatives", arguments->alternatives,
          "The so many likeliest tokens at the first position, or behind a prefix, each with the best\n"
          "translation that goes on from it")
      ->excludes(nbest);
  command->add_flag(
      "--scores", arguments->scores,
      "Print each translation's score and a tab before it; with --json also those of its tokens");
  command->add_flag("--alignments", arguments->alignments,
                    "Print \" ||| \" and source-target pairs of token numbers after each translation: where\n"
                    "its tokens came from, by cross attention; with --json as lists");
  command->add_flag("--prefixes", arguments->prefixes,
                    "A line may go on, after a tab, with the words that its translation begins with");
  command
      ->add_option("--ensemble", arguments->ensemble,
                   "A further model that votes on each token; may be given several times")
      ->type_name("DIR")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_sampling_options(*command, arguments->sampling, "Draw translations at random (--nbest: how many)");
  command
      ->add_option("--trace", arguments->trace,
                   "Write what the beam search kept and pruned, a JSON object for each line")
      ->type_name("FILE");
  command->add_flag("--json", arguments->json, "Print a JSON object for each line");
  command->add_option("--chunk-lines", arguments->chunk_lines,
                      "Lines read before they are translated (default: 2048; 1 where stdin is a terminal)");
  command->add_flag(
      "--profile", arguments->profile,
      "Print afterwards, on stderr, where time and memory went, by operation; with --json as one object");
  add_threads_option(*command);
  command->callback([arguments] { translate(*arguments); });
}

}  // namespace qkv::apps
