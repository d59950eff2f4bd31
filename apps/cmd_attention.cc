#include <iostream>
#include <memory>

#include "apps/command.h"
#include "qkv/base/error.h"
#include "qkv/decode/generate.h"
#include "qkv/decode/text_tasks.h"
#include "qkv/decode/translate.h"
#include "qkv/explain/captured_report.h"
#include "qkv/models/pretrained.h"

namespace qkv::apps {
namespace {

struct Arguments {
  std::string model, source, target, out;
};

// Of a model that reads one text.
template <class Reader>
explain::AttentionReport report_of_text(const Arguments& arguments) {
  if (!arguments.target.empty()) {
    throw UsageError(concat("--target: expected none, as ", arguments.model, " reads one text, found one"));
  }
  return explain::attention_report(Reader(arguments.model).attention(arguments.source), arguments.source,
                                   arguments.model);
}

explain::AttentionReport report_of_pair(const Arguments& arguments) {
  const models::TranslationModel model = models::load_translation_model(arguments.model);
  return explain::attention_report(
      decode::capture_text(model, arguments.source, arguments.target, decode::default_options(model).search),
      arguments.model);
}

explain::AttentionReport report_of(const Arguments& arguments) {
  switch (models::folder_kind(arguments.model)) {
    case models::FolderKind::language:
      return report_of_text<decode::Writer>(arguments);
    case models::FolderKind::encoder:
      return report_of_text<decode::TextTasks>(arguments);
    case models::FolderKind::image:
      throw UsageError(
          concat("attention: expected a model that reads text, found one of images: ", arguments.model));
    case models::FolderKind::translation:
      break;
  }
  return report_of_pair(arguments);
}

void write_attention(const Arguments& arguments) {
  const explain::AttentionReport report = report_of(arguments);
  explain::write_report(report, arguments.out);
  std::cout << report.title << '\n' << "written: " << arguments.out << '\n';
}

}  // namespace

void add_attention(CLI::App& app) {
  CLI::App* command = add_command(app, "attention",
                                  "Draw what a model attends to: every layer and head of encoder, decoder "
                                  "and the attention between them; of a\n"
                                  "model that reads one text (gpt2, llama, bert, ...) every layer and head.\n"
                                  "A .html file is one page that needs no network; .svg is a drawing of all "
                                  "heads; .json has the numbers.",
                                  "qkv attention model --source 'A small house.' --out attention.html");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("model", arguments->model, "Model folder")->required()->type_name("DIR");
  command->add_option("--source", arguments->source, "The text to read")->required();
  command->add_option("--target", arguments->target,
                      "The text that the model is made to write (default: its own translation)");
  command->add_option("--out", arguments->out, "The file to write: its name ends in .html, .svg or .json")
      ->required();
  add_threads_option(*command);
  command->callback([arguments] { write_attention(*arguments); });
}

}  // namespace qkv::apps
