#include <memory>

#include "apps/line_results.h"
#include "qkv/decode/text_tasks.h"

namespace qkv::apps {
namespace {

void tag(const LineArguments& arguments) {
  const decode::TextTasks tasks(arguments.model);
  for_lines(arguments, [&](int64_t first, std::span<const std::string> lines, LinePrinter& printer) {
    const std::vector<decode::TaggedText> found = tasks.tag(lines);
    for (size_t i = 0; i < found.size(); ++i) {
      const int64_t line = first + static_cast<int64_t>(i);
      if (!found[i].error.empty()) {
        printer.error(line, found[i].error);
        continue;
      }
      nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
      std::string text;
      for (const decode::TaggedToken& token : found[i].tokens) {
        const std::string part = lines[i].substr(token.begin, token.end - token.begin);
        tokens.push_back({{"text", part},
                          {"begin", token.begin},
                          {"end", token.end},
                          {"label", token.label.label},
                          {"probability", token.label.probability}});
        text += (text.empty() ? "" : " ") + part + "/" + token.label.label;
      }
      printer.json() ? printer.object(line, {{"tokens", std::move(tokens)}}) : printer.text(text);
    }
  });
}

}  // namespace

void add_tag(CLI::App& app) {
  CLI::App* command =
      add_command(app, "tag",
                  "Label each token of each line of stdin: \"text/label text/label ...\"; with "
                  "--json also where the\n"
                  "tokens stand (in bytes) and how likely the labels are. The model is a token "
                  "classifier (bert, roberta,\n"
                  "distilbert).",
                  "echo 'Wolfgang lives in Berlin.' | qkv tag bert-ner --json");
  const auto arguments = std::make_shared<LineArguments>();
  add_line_options(*command, *arguments);
  command->callback([arguments] { tag(*arguments); });
}

}  // namespace qkv::apps
