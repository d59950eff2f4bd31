// qkv score

#include <iomanip>
#include <memory>
#include <sstream>

#include "apps/line_results.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/pipelines/score.h"

namespace qkv::apps {
namespace {

std::string score_text(const pipelines::ScoredText& scored, const pipelines::Line& line) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(6) << scored.log_probability << '\t' << scored.perplexity << '\t'
       << line.text;
  return text.str();
}

// `run` scores a chunk of lines.
template <class Run>
void score_lines(const LineArguments& arguments, const Run& run) {
  print_results(
      arguments, Inputs::texts, [&](std::span<const std::string> lines, auto&&...) { return run(lines); },
      score_text, [](const pipelines::ScoredText& scored) { return to_json(scored); });
}

void score(const LineArguments& arguments) {
  if (models::folder_kind(arguments.model) == models::FolderKind::translation) {
    const pipelines::PairScorer scorer(arguments.model, arguments.load);
    return score_lines(arguments, [&](std::span<const std::string> lines) {
      std::vector<pipelines::TextPair> pairs;
      for (const std::string& line : lines) pairs.push_back(pipelines::pair_of_line(line));
      return scorer(pairs);
    });
  }
  const pipelines::TextScorer scorer(arguments.model, arguments.load);
  score_lines(arguments, [&](std::span<const std::string> lines) { return scorer(lines); });
}

}  // namespace

void add_score(Command& app) {
  Command* command = add_command(
      app, "score",
      "Score texts, or each line of stdin: with a language model (gpt2, llama, ...) a text, with an\n"
      "encoder-decoder (marian, t5, qkv) a source and its translation, separated by a tab. Prints the\n"
      "log-probability (natural logarithm; of a text given its first token, of a translation with its\n"
      "</s>), the perplexity (nan if there are no tokens to score), and the line, separated by tabs;\n"
      "with --json also the log-probability of each token.",
      "qkv score gpt2 'A man sleeps.'\n  qkv score gpt2 < sentences.txt\n  paste test.en test.de | qkv score "
      "model");
  const auto arguments = std::make_shared<LineArguments>();
  add_line_options(*command, *arguments, "Texts", ModelPath::folder_or_gguf);
  run_on_ranks(*command, *arguments, [arguments] { score(*arguments); });
}

}  // namespace qkv::apps
