// qkv score

#include <iomanip>
#include <memory>
#include <sstream>

#include "apps/line_results.h"
#include "qkv/pipelines/score.h"

namespace qkv::apps {
namespace {

std::string text_of(const pipelines::ScoredText& scored, const pipelines::Line& line) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(6) << scored.log_probability << '\t' << scored.perplexity << '\t'
       << line.text;
  return text.str();
}

void score(const LineArguments& arguments) {
  const pipelines::TextScorer scorer(arguments.model, arguments.load);
  print_results(
      arguments, [&](std::span<const std::string> texts, auto) { return scorer(texts); }, text_of,
      [](const pipelines::ScoredText& scored) { return to_json(scored); });
}

}  // namespace

void add_score(Command& app) {
  Command* command = add_command(
      app, "score",
      "Score each line of stdin with a language model (gpt2, llama). Prints the line's log-probability\n"
      "(natural logarithm, given its first token), its perplexity (nan if nothing follows the first\n"
      "token), and the line, separated by tabs; with --json also the log-probability of each token.",
      "qkv score gpt2 < sentences.txt");
  const auto arguments = std::make_shared<LineArguments>();
  add_line_options(*command, *arguments);
  command->callback([arguments] { score(*arguments); });
}

}  // namespace qkv::apps
