#include <memory>

#include "apps/line_results.h"
#include "qkv/pipelines/text_encoder.h"

namespace qkv::apps {
namespace {

std::string part_of(const Line& line, const pipelines::TaggedToken& token) {
  return line.text.substr(token.begin, token.end - token.begin);
}

std::string text_of(const pipelines::TaggedText& tagged, const Line& line) {
  std::string text;
  for (const pipelines::TaggedToken& token : tagged.tokens) {
    text += (text.empty() ? "" : " ") + part_of(line, token) + "/" + token.label.label;
  }
  return text;
}

nlohmann::ordered_json fields_of(const pipelines::TaggedText& tagged, const Line& line) {
  nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
  for (const pipelines::TaggedToken& token : tagged.tokens) {
    tokens.push_back({{"text", part_of(line, token)},
                      {"begin", token.begin},
                      {"end", token.end},
                      {"label", token.label.label},
                      {"probability", token.label.probability}});
  }
  return {{"tokens", std::move(tokens)}};
}

void tag(const LineArguments& arguments) {
  const pipelines::TextEncoderPipeline tasks(arguments.model, arguments.load);
  print_results(
      arguments, [&](int64_t /*first*/, std::span<const std::string> lines) { return tasks.tag(lines); },
      text_of, fields_of);
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
