#include <iomanip>
#include <memory>
#include <sstream>

#include "apps/line_results.h"
#include "qkv/decode/text_tasks.h"

namespace qkv::apps {
namespace {

struct Arguments {
  LineArguments lines;
  bool pairs = false;
};

void classify(const Arguments& arguments) {
  const decode::TextTasks tasks(arguments.lines.model);
  for_lines(arguments.lines, [&](int64_t first, std::span<const std::string> lines, LinePrinter& printer) {
    const std::vector<decode::ClassifiedText> found = tasks.classify(lines, arguments.pairs);
    for (size_t i = 0; i < found.size(); ++i) {
      const int64_t line = first + static_cast<int64_t>(i);
      if (!found[i].error.empty()) {
        printer.error(line, found[i].error);
      } else if (printer.json()) {
        nlohmann::ordered_json labels = nlohmann::ordered_json::array();
        for (const decode::LabelProbability& one : found[i].labels) {
          labels.push_back({{"label", one.label}, {"probability", one.probability}});
        }
        printer.object(line, {{"labels", std::move(labels)}});
      } else {
        std::ostringstream text;
        text << found[i].labels.front().label << '\t' << std::fixed << std::setprecision(6)
             << found[i].labels.front().probability;
        printer.text(text.str());
      }
    }
  });
}

}  // namespace

void add_classify(CLI::App& app) {
  CLI::App* command = add_command(
      app, "classify",
      "Label each line of stdin: the likeliest label, a tab and its probability; with --json all of\n"
      "them. The model is a sequence classifier (bert, roberta, distilbert).",
      "echo 'What a film!' | qkv classify distilbert-sst2");
  const auto arguments = std::make_shared<Arguments>();
  add_line_options(*command, arguments->lines);
  command->add_flag("--pairs", arguments->pairs,
                    "A tab parts a line in two texts, which are judged together");
  command->callback([arguments] { classify(*arguments); });
}

}  // namespace qkv::apps
