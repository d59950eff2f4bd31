#include <iomanip>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>

#include "apps/image_options.h"
#include "apps/line_results.h"
#include "qkv/base/error.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/pipelines/image_encoder.h"
#include "qkv/pipelines/text_encoder.h"

namespace qkv::apps {
namespace {

struct Arguments {
  LineArguments lines;
  ImageArguments images;
  // Where nothing is said, the folder decides.
  std::optional<pipelines::Pooling> pooling;
  std::optional<bool> normalize;
  std::optional<int64_t> max_length;
  std::optional<std::string> prompt;
};

// What the folder says, and over it what the command line says.
pipelines::EmbedOptions vector_options(const Arguments& arguments, const pipelines::EmbedOptions& folder) {
  return {.pooling = arguments.pooling.value_or(folder.pooling),
          .normalize = arguments.normalize.value_or(folder.normalize)};
}

pipelines::TextEmbedOptions text_options(const Arguments& arguments,
                                         const pipelines::TextEmbedOptions& folder) {
  return {.vector = vector_options(arguments, folder.vector),
          .max_length = arguments.max_length ? arguments.max_length : folder.max_length,
          .prompt = arguments.prompt.value_or(folder.prompt)};
}

std::string text_of(const pipelines::Embedded& vector, const Line& /*line*/) {
  std::ostringstream text;
  text << std::setprecision(std::numeric_limits<float>::max_digits10);
  for (size_t c = 0; c < vector.values.size(); ++c) text << (c > 0 ? " " : "") << vector.values[c];
  return text.str();
}

nlohmann::ordered_json fields_of(const pipelines::Embedded& vector, const Line& /*line*/) {
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
    if (arguments.max_length || arguments.prompt) {
      throw UsageError("--max-length, --prompt: expected a model that reads text, found one of images");
    }
    const pipelines::ImageEncoderPipeline tasks(arguments.lines.model,
                                                image_task_options(arguments.images, arguments.lines.load));
    const pipelines::EmbedOptions options = vector_options(arguments, {});
    return embed_lines(arguments, [&](auto lines) { return tasks.embed(lines, options); });
  }
  require_no_images(arguments.images);
  const pipelines::TextEncoderPipeline tasks(arguments.lines.model, arguments.lines.load);
  const pipelines::TextEmbedOptions options = text_options(arguments, tasks.embed_options());
  embed_lines(arguments, [&](auto lines) { return tasks.embed(lines, options); });
}

}  // namespace

void add_embed(CLI::App& app) {
  CLI::App* command = add_command(
      app, "embed",
      "A vector for each line of stdin, as an encoder (bert, roberta, distilbert, t5) sees it: its\n"
      "numbers with spaces between them. A folder of sentence-transformers (modules.json) says itself\n"
      "how: its pooling, its length, how much of a line it reads. With a model of images (vit, deit)\n"
      "lines are the paths of PNG and JPEG files.",
      "qkv embed all-MiniLM-L6-v2 < sentences.txt\n"
      "  qkv embed bert-base-uncased --pool mean --normalize < sentences.txt\n"
      "  ls *.jpg | qkv embed vit-base-patch16-224-in21k --pool cls");
  const auto arguments = std::make_shared<Arguments>();
  add_line_options(*command, arguments->lines);
  add_image_options(*command, arguments->images);
  add_choice<std::optional<pipelines::Pooling>, pipelines::Pooling>(
      *command, "--pool", arguments->pooling,
      {{"mean", pipelines::Pooling::mean},
       {"cls", pipelines::Pooling::cls},
       {"max", pipelines::Pooling::max},
       {"pooler", pipelines::Pooling::pooler}},
      "Which vector (default: as the folder says, else mean)\n"
      "  mean: the mean of all tokens'\n"
      "  cls: the first token's\n"
      "  max: the largest of all tokens', number by number\n"
      "  pooler: what the model makes of the first token's");
  // Not bound to the variable itself: CLI11 would make its nothing a false before anything is read.
  command->add_flag_function(
      "--normalize,!--no-normalize", [arguments](int64_t count) { arguments->normalize = count > 0; },
      "Make vectors of length 1, or leave them (default: as the folder says, else left)");
  command
      ->add_option(
          "--max-length", arguments->max_length,
          "Tokens of a line that are read, those around it among them; the rest is left out (default:\n"
          "as the folder says, else a line of more than the model can read is an error)")
      ->check(CLI::PositiveNumber);
  command->add_option("--prompt", arguments->prompt,
                      "Text to put before each line (default: the folder's default prompt, if it has one)");
  command->callback([arguments] { embed(*arguments); });
}

}  // namespace qkv::apps
