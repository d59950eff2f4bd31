#include <iostream>
#include <memory>

#include "apps/image_options.h"
#include "qkv/base/error.h"
#include "qkv/explain/captured_report.h"
#include "qkv/explain/image_attention.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/image_encoder.h"
#include "qkv/pipelines/text_encoder.h"
#include "qkv/pipelines/translate.h"

namespace qkv::apps {
namespace {

struct Arguments {
  std::string model, out;
  std::optional<std::string> source, image;
  std::string target;
  ImageArguments images;
};

// Of a model that reads one text.
template <class Reader>
explain::AttentionReport report_of_text(const Arguments& arguments) {
  if (!arguments.target.empty()) {
    throw UsageError(concat("--target: expected none, as ", arguments.model, " reads one text, found one"));
  }
  return explain::attention_report(Reader(arguments.model).attention(*arguments.source), *arguments.source,
                                   arguments.model);
}

explain::AttentionReport report_of_pair(const Arguments& arguments) {
  const models::TranslationModel model = models::load_translation_model(arguments.model);
  return explain::attention_report(pipelines::capture_text(model, *arguments.source, arguments.target,
                                                           pipelines::default_options(model).search),
                                   arguments.model);
}

explain::AttentionReport report_of(models::FolderKind kind, const Arguments& arguments) {
  if (arguments.image || arguments.images.side) {
    throw UsageError(concat("--image, --image-size: expected none, as ", arguments.model, " reads text"));
  }
  if (!arguments.source) throw UsageError("--source: expected a text, found none");
  switch (kind) {
    case models::FolderKind::language:
      return report_of_text<pipelines::TextGenerator>(arguments);
    case models::FolderKind::encoder:
      return report_of_text<pipelines::TextEncoderPipeline>(arguments);
    case models::FolderKind::translation:
    case models::FolderKind::image:
      break;
  }
  return report_of_pair(arguments);
}

explain::ImageAttentionReport report_of_image(const Arguments& arguments) {
  if (!arguments.image || arguments.source || !arguments.target.empty()) {
    throw UsageError(concat("--image: expected a PNG or JPEG file and no text, as ", arguments.model,
                            " is a model of images, found ", arguments.image ? "both" : "none"));
  }
  const pipelines::ImageEncoderPipeline tasks(arguments.model, image_task_options(arguments.images, {}));
  return explain::image_attention_report(tasks.attention(data::read_image(*arguments.image)),
                                         *arguments.image, arguments.model);
}

void write_attention(const Arguments& arguments) {
  const auto write = [&](const auto& report) {
    explain::write_report(report, arguments.out);
    std::cout << report.title << '\n' << "written: " << arguments.out << '\n';
  };
  const models::FolderKind kind = models::folder_kind(arguments.model);
  kind == models::FolderKind::image ? write(report_of_image(arguments)) : write(report_of(kind, arguments));
}

}  // namespace

void add_attention(CLI::App& app) {
  CLI::App* command =
      add_command(app, "attention",
                  "Draw what a model attends to: every layer and head of encoder, decoder "
                  "and the attention between them; of a\n"
                  "model that reads one text (gpt2, llama, bert, ...) every layer and head; of one of\n"
                  "images (vit, deit) the same over the image, with attention rollout.\n"
                  "A .html file is one page that needs no network; .svg is a drawing of all "
                  "heads; .json has the numbers.",
                  "qkv attention model --source 'A small house.' --out attention.html\n"
                  "  qkv attention vit --image cat.jpg --out cat.html");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("model", arguments->model, "Model folder")->required()->type_name("DIR");
  command->add_option("--source", arguments->source, "The text to read");
  command->add_option("--target", arguments->target,
                      "The text that the model is made to write (default: its own translation)");
  command->add_option("--image", arguments->image, "Image to explain (image models)");
  add_image_options(*command, arguments->images);
  command->add_option("--out", arguments->out, "The file to write: its name ends in .html, .svg or .json")
      ->required();
  add_threads_option(*command);
  command->callback([arguments] { write_attention(*arguments); });
}

}  // namespace qkv::apps
