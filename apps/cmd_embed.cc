#include <iomanip>
#include <limits>
#include <map>
#include <memory>
#include <sstream>

#include "apps/image_options.h"
#include "apps/line_results.h"
#include "qkv/decode/image_tasks.h"
#include "qkv/decode/text_tasks.h"
#include "qkv/models/pretrained.h"

namespace qkv::apps {
namespace {

struct Arguments {
  LineArguments lines;
  ImageArguments images;
  decode::EmbedOptions options;
};

std::string text_of(const decode::Embedded& vector, const Line& /*line*/) {
  std::ostringstream text;
  text << std::setprecision(std::numeric_limits<float>::max_digits10);
  for (size_t c = 0; c < vector.values.size(); ++c) text << (c > 0 ? " " : "") << vector.values[c];
  return text.str();
}

nlohmann::ordered_json fields_of(const decode::Embedded& vector, const Line& /*line*/) {
  return {{"vector", vector.values}};
}

// `find` embeds some lines.
template <class Find>
void embed_lines(const Arguments& arguments, const Find& find) {
  print_results(
      arguments.lines, [&](int64_t /*first*/, std::span<const std::string> lines) { return find(lines); },
      text_of, fields_of);
}

void embed(const Arguments& arguments) {
  if (models::folder_kind(arguments.lines.model) == models::FolderKind::image) {
    const decode::ImageTasks tasks(arguments.lines.model,
                                   image_task_options(arguments.images, arguments.lines.load));
    return embed_lines(arguments, [&](auto lines) { return tasks.embed(lines, arguments.options); });
  }
  require_no_images(arguments.images);
  const decode::TextTasks tasks(arguments.lines.model, arguments.lines.load);
  embed_lines(arguments, [&](auto lines) { return tasks.embed(lines, arguments.options); });
}

}  // namespace

void add_embed(CLI::App& app) {
  CLI::App* command = add_command(
      app, "embed",
      "A vector for each line of stdin, as an encoder (bert, roberta, distilbert) sees it: its\n"
      "numbers with spaces between them. With a model of images (vit, deit) lines are the paths of\n"
      "PNG and JPEG files.",
      "qkv embed bert-base-uncased --pool mean --normalize < sentences.txt\n"
      "  ls *.jpg | qkv embed vit-base-patch16-224-in21k --pool cls");
  const auto arguments = std::make_shared<Arguments>();
  add_line_options(*command, arguments->lines);
  add_image_options(*command, arguments->images);
  command
      ->add_option("--pool", arguments->options.pooling,
                   "Which vector (default: mean)\n"
                   "  mean: the mean of all tokens'\n"
                   "  cls: the first token's\n"
                   "  pooler: what the model makes of the first token's")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, decode::Pooling>{{"mean", decode::Pooling::mean},
                                                 {"cls", decode::Pooling::cls},
                                                 {"pooler", decode::Pooling::pooler}}))
      ->option_text("mean|cls|pooler");
  command->add_flag("--normalize", arguments->options.normalize, "Make vectors of length 1");
  command->callback([arguments] { embed(*arguments); });
}

}  // namespace qkv::apps
