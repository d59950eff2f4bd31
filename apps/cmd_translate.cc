#include <unistd.h>

#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/command.h"
#include "apps/decode_options.h"
#include "apps/profile_report.h"
#include "qkv/base/error.h"
#include "qkv/decode/translate.h"

namespace qkv::apps {
namespace {

using decode::TranslatedHypothesis;
using decode::Translation;

struct Arguments {
  std::string model;
  DecodeArguments decode;
  std::optional<int> nbest;
  std::optional<int64_t> chunk_lines;
  bool scores = false, json = false, profile = false;
};

nlohmann::ordered_json to_json(int64_t line, const Translation& translation, bool scores) {
  nlohmann::ordered_json result{{"line", line}};
  if (!translation.error.empty()) {
    result["error"] = translation.error;
    return result;
  }
  result["translation"] = translation.text;
  if (translation.truncated) result["truncated"] = true;
  result["hypotheses"] = nlohmann::ordered_json::array();
  for (const TranslatedHypothesis& one : translation.hypotheses) {
    nlohmann::ordered_json hypothesis{{"text", one.text}, {"score", one.hypothesis.score}};
    if (scores) {
      hypothesis["log_probability"] = one.hypothesis.log_probability;
      hypothesis["complete"] = one.hypothesis.complete;
      hypothesis["tokens"] = one.tokens;
      hypothesis["token_log_probabilities"] = one.hypothesis.token_log_probabilities;
    }
    result["hypotheses"].push_back(std::move(hypothesis));
  }
  return result;
}

// "[line <tab>] [score <tab>] text": the line's number where there may be several translations of one.
void print_text(int64_t line, const Translation& translation, int nbest, bool scores) {
  const auto print = [&](double score, const std::string& text) {
    if (nbest > 1) std::cout << line << '\t';
    if (scores) std::cout << std::fixed << std::setprecision(6) << score << '\t';
    std::cout << text << '\n';
  };
  if (translation.hypotheses.empty()) print(0, "");
  for (const TranslatedHypothesis& one : translation.hypotheses) print(one.hypothesis.score, one.text);
}

void translate(const Arguments& arguments) {
  const models::TranslationModel model = models::load_translation_model(arguments.model);
  decode::TranslateOptions options = translate_options(model, arguments.decode);
  options.search.nbest = arguments.nbest.value_or(options.search.nbest);
  options.search.validate();
  const bool interactive = ::isatty(STDIN_FILENO) == 1;
  decode::StreamOptions stream;
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
      std::cout << to_json(line, translation, arguments.scores)
                       .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                << '\n';
    } else {
      print_text(line, translation, options.search.nbest, arguments.scores);
    }
    if (line % stream.chunk_lines == 0) std::cout.flush();
    if (!std::cout) throw IoError("cannot write to stdout: is the disk full?");
  };
  std::optional<Profile> profile;
  reset_allocator_peak();
  if (arguments.profile) profile.emplace();
  const decode::StreamCounts counts =
      translate_lines(decode::Translator(model), std::cin, print, options, stream);
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
  add_decode_options(*command, arguments->decode);
  command->add_option("--nbest", arguments->nbest,
                      "Translations printed for each line, best first, after the line's number and a tab");
  command->add_flag(
      "--scores", arguments->scores,
      "Print each translation's score and a tab before it; with --json also those of its tokens");
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
