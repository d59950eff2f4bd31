#include <iomanip>
#include <memory>
#include <sstream>

#include "apps/line_results.h"
#include "qkv/decode/generate.h"

namespace qkv::apps {
namespace {

void score(const LineArguments& arguments) {
  const decode::Writer writer(arguments.model);
  for_lines(arguments, [&](int64_t first, std::span<const std::string> lines, LinePrinter& printer) {
    const std::vector<decode::ScoredText> found = writer.score(lines);
    for (size_t i = 0; i < found.size(); ++i) {
      const decode::ScoredText& one = found[i];
      const int64_t line = first + static_cast<int64_t>(i);
      if (!one.error.empty()) {
        printer.error(line, one.error);
      } else if (printer.json()) {
        printer.object(line, {{"log_probability", one.log_probability},
                              {"perplexity", one.perplexity},
                              {"tokens", one.tokens},
                              {"token_log_probabilities", one.log_probabilities}});
      } else {
        std::ostringstream text;
        text << std::fixed << std::setprecision(6) << one.log_probability << '\t' << one.perplexity << '\t'
             << lines[i];
        printer.text(text.str());
      }
    }
  });
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
