#include <iostream>
#include <memory>

#include "apps/command.h"
#include "qkv/decode/translate.h"
#include "qkv/explain/captured_report.h"

namespace qkv::apps {
namespace {

struct Arguments {
  std::string model, source, target, out;
};

void write_attention(const Arguments& arguments) {
  const models::TranslationModel model = models::load_translation_model(arguments.model);
  const explain::AttentionReport report = explain::attention_report(
      decode::capture_text(model, arguments.source, arguments.target, decode::default_options(model).search),
      arguments.model);
  explain::write_report(report, arguments.out);
  std::cout << report.title << '\n' << "written: " << arguments.out << '\n';
}

}  // namespace

void add_attention(CLI::App& app) {
  CLI::App* command = add_command(app, "attention",
                                  "Draw what a model attends to: every layer and head of encoder, decoder "
                                  "and the attention between them.\n"
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
