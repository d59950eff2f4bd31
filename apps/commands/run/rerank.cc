// qkv rerank

#include <algorithm>
#include <iomanip>
#include <memory>
#include <sstream>

#include "apps/line_results.h"
#include "qkv/pipelines/checks.h"
#include "qkv/pipelines/rerank.h"

namespace qkv::apps {
namespace {

struct RerankArguments {
  LineArguments lines;
  std::string query;
  std::optional<size_t> top;
  bool raw = false;
  std::optional<int64_t> max_length;
};

std::string relevance_text(float score) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(6) << score;
  return text.str();
}

// The best lines of all, best first.
void print_top(const RerankArguments& arguments, const pipelines::Reranker& reranker,
               const pipelines::RerankOptions& options) {
  std::vector<pipelines::Line> lines;
  std::vector<pipelines::Reranked> results;
  const pipelines::LineCounts counts = pipelines::for_each_line(
      line_reader(arguments.lines),
      [&](std::span<const std::string> texts, auto&&...) {
        return reranker(arguments.query, texts, options);
      },
      [&](const pipelines::Line& line, const pipelines::Reranked& result) {
        if (!result.error.empty()) report_line(arguments.lines, line.number, result.error);
        lines.push_back(line);
        results.push_back(result);
      },
      [] {});
  const std::vector<size_t> order = pipelines::by_score(results);
  for (const size_t i : std::span(order).first(std::min(*arguments.top, order.size()))) {
    std::cout << (arguments.lines.json
                      ? pipelines::with_line(lines[i].number, to_json(results[i], lines[i].text))
                      : concat(relevance_text(results[i].score), '\t', lines[i].text))
              << '\n';
  }
  end_lines(arguments.lines, counts);
}

void rerank(const RerankArguments& arguments) {
  pipelines::require_text("--query", arguments.query);
  const pipelines::Reranker reranker(arguments.lines.model, arguments.lines.load);
  pipelines::RerankOptions options = reranker.default_options();
  options.raw = options.raw || arguments.raw;
  if (arguments.max_length) options.max_length = arguments.max_length;
  if (arguments.top) return print_top(arguments, reranker, options);
  print_results(
      arguments.lines, Inputs::texts,
      [&](std::span<const std::string> lines, auto&&...) {
        return reranker(arguments.query, lines, options);
      },
      [](const pipelines::Reranked& found, const pipelines::Line& /*line*/) {
        return relevance_text(found.score);
      },
      [](const pipelines::Reranked& found) { return to_json(found); });
}

}  // namespace

void add_rerank(Command& app) {
  Command* command = add_command(
      app, "rerank",
      "Score how well texts, or each line of stdin, answer a query. Prints a score per line; with --top the\n"
      "best lines, each after its score and a tab. The model is a sequence classifier with one label\n"
      "(cross-encoder), as those of sentence-transformers' CrossEncoder.",
      "qkv rerank bge-reranker-base --query 'What is a panda?' < passages.txt\n"
      "  qkv rerank bge-reranker-base --query 'What is a panda?' --top 3 < passages.txt");
  const auto arguments = std::make_shared<RerankArguments>();
  Option* output = add_line_options(*command, arguments->lines).output;
  add_option(*command, "--query", arguments->query, "TEXT", "The query; required")->required();
  add_option(*command, "--top", arguments->top, "N",
             "Print the best N lines, best first (default: the scores of all, in their order)")
      ->check(at_least(1))
      ->excludes(output);
  command->add_flag("--raw-scores", arguments->raw,
                    "Logits (default: the folder's activation, or their sigmoid)");
  add_option(*command, "--max-length", arguments->max_length, "TOKENS",
             "Maximum tokens of a query and a text, special tokens included; the longer is cut off\n"
             "(default: the folder's)")
      ->check(at_least(1));
  run_on_ranks(*command, arguments->lines, [arguments] { rerank(*arguments); });
}

}  // namespace qkv::apps
