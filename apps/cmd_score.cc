#include <iomanip>
#include <memory>
#include <sstream>

#include "apps/line_results.h"
#include "qkv/pipelines/generate.h"

namespace qkv::apps {
namespace {

std::string text_of(const pipelines::ScoredText& scored, const Line& line) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(6) << scored.log_probability << '\t' << scored.perplexity << '\t'
       << line.text;
  return text.str();
}

nlohmann::ordered_json fields_of(const pipelines::ScoredText& scored, const Line& /*line*/) {
  return {{"log_probability", scored.log_probability},
          {"perplexity", scored.perplexity},
          {"tokens", scored.tokens},
          {"token_log_probabilities", scored.log_probabilities}};
}

void score(const LineArguments& arguments) {
  const pipelines::TextGenerator writer(arguments.model, arguments.load);
  print_results(
      arguments, [&](int64_t /*first*/, std::span<const std::string> lines) { return writer.score(lines); },
      text_of, fields_of);
}

}  // namespace

void add_score(CLI::App& app) {
  CLI::App* command =
      add_command(app, "score",
                  "How likely a language model (gpt2, llama) finds each line of stdin: the logarithm of its\n"
                  "probability given its first token, a tab, its perplexity, a tab, and the line.",
                  "qkv score gpt2 < sentences.txt");
  const auto arguments = std::make_shared<LineArguments>();
  add_line_options(*command, *arguments);
  command->callback([arguments] { score(*arguments); });
}

}  // namespace qkv::apps
