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

std::string text_of(const decode::ClassifiedText& found, const Line& /*line*/) {
  std::ostringstream text;
  text << found.labels.front().label << '\t' << std::fixed << std::setprecision(6)
       << found.labels.front().probability;
  return text.str();
}

nlohmann::ordered_json fields_of(const decode::ClassifiedText& found, const Line& /*line*/) {
  nlohmann::ordered_json labels = nlohmann::ordered_json::array();
  for (const decode::LabelProbability& one : found.labels) {
    labels.push_back({{"label", one.label}, {"probability", one.probability}});
  }
  return {{"labels", std::move(labels)}};
}

void classify(const Arguments& arguments) {
  const decode::TextTasks tasks(arguments.lines.model, arguments.lines.load);
  print_results(
      arguments.lines,
      [&](int64_t /*first*/, std::span<const std::string> lines) {
        return tasks.classify(lines, arguments.pairs);
      },
      text_of, fields_of);
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
