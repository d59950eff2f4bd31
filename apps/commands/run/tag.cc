// qkv tag

#include <memory>

#include "apps/line_results.h"
#include "qkv/pipelines/tag.h"

namespace qkv::apps {
namespace {

std::string tagged_text(const pipelines::TaggedText& tagged, const pipelines::Line& /*line*/) {
  std::string text;
  for (const pipelines::TaggedToken& token : tagged.tokens) {
    text += (text.empty() ? "" : " ") + token.text + "/" + token.label.label;
  }
  return text;
}

void tag(const LineArguments& arguments) {
  const pipelines::TokenTagger tagger(arguments.model, arguments.load);
  print_results(
      arguments, [&](std::span<const std::string> texts, auto) { return tagger(texts); }, tagged_text,
      [](const pipelines::TaggedText& tagged) { return to_json(tagged); });
}

}  // namespace

void add_tag(Command& app) {
  Command* command = add_command(
      app, "tag",
      "Label each token of each line of stdin. Prints \"text/label text/label ...\"; with --json also\n"
      "each token's first and last byte in the line and the probability of its label. The model is a\n"
      "token classifier (bert, roberta, distilbert).",
      "echo 'Wolfgang lives in Berlin.' | qkv tag bert-ner --json");
  const auto arguments = std::make_shared<LineArguments>();
  add_line_options(*command, *arguments);
  command->callback([arguments] { tag(*arguments); });
}

}  // namespace qkv::apps
