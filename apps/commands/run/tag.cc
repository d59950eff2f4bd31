// qkv tag

#include <memory>
#include <span>
#include <string>
#include <vector>

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

struct TagArguments : LineArguments {
  bool words = false;
};

void tag(const TagArguments& arguments) {
  const pipelines::TokenTagger tagger(arguments.model, arguments.load);
  print_results(
      arguments, Inputs::texts,
      [&](std::span<const std::string> texts, auto&&...) {
        std::vector<pipelines::TaggedText> tagged = tagger(texts);
        for (size_t i = 0; arguments.words && i < tagged.size(); ++i)
          tagged[i] = words_of(texts[i], tagged[i]);
        return tagged;
      },
      tagged_text, [](const pipelines::TaggedText& tagged) { return to_json(tagged); });
}

}  // namespace

void add_tag(Command& app) {
  Command* command = add_command(
      app, "tag",
      "Label each token or word of texts, or of each line of stdin. Prints \"text/label text/label ...\";\n"
      "with --json also its first byte in the line, the byte after its last, and the probability of its "
      "label. The\n"
      "model is a token classifier (bert, roberta, deberta-v2, ...).",
      "qkv tag bert-ner 'Wolfgang lives in Berlin.'\n"
      "  qkv tag bert-ner --words --json < sentences.txt");
  const auto arguments = std::make_shared<TagArguments>();
  add_line_options(*command, *arguments);
  command->add_flag("--words", arguments->words,
                    "Label words, which spaces separate, instead of tokens; a word's label is that of its\n"
                    "first token");
  run_on_ranks(*command, *arguments, [arguments] { tag(*arguments); });
}

}  // namespace qkv::apps
