#include <memory>
#include <type_traits>

#include "apps/cli/messages.h"
#include "apps/image_options.h"
#include "apps/load_options.h"
#include "qkv/base/error.h"
#include "qkv/explain/captured_report.h"
#include "qkv/explain/image_attention.h"
#include "qkv/explain/tiles.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/pipelines/images/image_attention.h"
#include "qkv/pipelines/open_model.h"
#include "qkv/pipelines/text_attention.h"
#include "qkv/pipelines/translate.h"

namespace qkv::apps {
namespace {

struct AttentionArguments {
  std::string model, out;
  models::LoadOptions load;
  std::optional<std::string> source, image;
  std::string target, pair;
  std::optional<int64_t> tile;
  std::optional<int> layer, head;  // from 1
  explain::SvgOptions drawing;
  ImageArguments images;
};

explain::AttentionReport report_of(const std::shared_ptr<const models::TranslationModel>& model,
                                   const AttentionArguments& arguments) {
  return explain::attention_report(pipelines::capture_text(*model, *arguments.source, arguments.target,
                                                           pipelines::default_options(*model).search),
                                   arguments.model);
}

explain::AttentionReport report_of(const std::shared_ptr<const pipelines::LoadedLanguageModel>& model,
                                   const AttentionArguments& arguments) {
  return explain::tiled_report(*model, *arguments.source, arguments.tile.value_or(0), arguments.model);
}

explain::AttentionReport report_of(const std::shared_ptr<const pipelines::LoadedTextEncoder>& encoder,
                                   const AttentionArguments& arguments) {
  return explain::tiled_report(*encoder, *arguments.source, arguments.pair, arguments.tile.value_or(0),
                               arguments.model);
}

explain::ImageAttentionReport report_of(const std::shared_ptr<const pipelines::LoadedImageEncoder>& encoder,
                                        const AttentionArguments& arguments) {
  const pipelines::ImageEncoderPipeline pipeline(encoder, image_options(arguments.images));
  return explain::image_attention_report(
      pipelines::capture_attention(pipeline, data::read_image(*arguments.image)), *arguments.image,
      arguments.model);
}

// Throws UsageError for options that the model in the folder does not support.
void require_input(const AttentionArguments& arguments) {
  const models::FolderKind kind = models::folder_kind(arguments.model);
  if (kind == models::FolderKind::speech)
    throw UsageError(concat("model: expected one of texts or images, found ", arguments.model, ", of audio"));
  const bool both = kind == models::FolderKind::image_text;
  if (both && !arguments.image == !arguments.source)
    throw UsageError(
        concat("--image, --source: expected an image or a text, found ", arguments.image ? "both" : "none"));
  const bool reads_images = kind == models::FolderKind::image || (both && arguments.image);
  const auto require_none = [&](const char* option, const std::string& value, bool reader,
                                const char* readers) {
    if (!value.empty() && !reader) throw UsageError(concat(option, ": only for ", readers));
  };
  if (reads_images && (!arguments.image || arguments.source)) {
    throw UsageError(concat("--image: expected a PNG or JPEG file and no text, because ", arguments.model,
                            " is an image model, found ", arguments.image ? "both" : "none"));
  }
  if (!reads_images && arguments.image) throw UsageError("--image: only for image models");
  if (!reads_images) require_no_images(arguments.images);
  if (!reads_images && !arguments.source) throw UsageError("--source: expected a text, found none");
  if (arguments.tile && (reads_images || kind == models::FolderKind::translation)) {
    throw UsageError(concat("--tile: not for ", reads_images ? "image models" : "encoder-decoders"));
  }
  if (reads_images && arguments.drawing != explain::SvgOptions())
    throw UsageError("--part, --layer, --head and --dark: not for image models");
  require_none("--target", arguments.target, kind == models::FolderKind::translation, "encoder-decoders");
  require_none("--pair", arguments.pair, kind == models::FolderKind::encoder, "text encoders");
}

void write_attention(AttentionArguments& arguments) {
  if (arguments.layer) arguments.drawing.layer = *arguments.layer - 1;
  if (arguments.head) arguments.drawing.head = *arguments.head - 1;
  require_input(arguments);
  const auto write = [&](const auto& model) {
    const auto report = report_of(model, arguments);
    if constexpr (std::is_same_v<std::decay_t<decltype(report)>, explain::AttentionReport>) {
      explain::write_report(report, arguments.out, arguments.drawing);
    } else {
      explain::write_report(report, arguments.out);
    }
    say(concat(report.title, "; written to ", arguments.out));
  };
  const auto opened = pipelines::open_model(arguments.model, arguments.load);
  std::visit(
      [&](const auto& model) {
        if constexpr (std::is_same_v<std::decay_t<decltype(*model)>, models::SpeechModel>) {
          // require_input() has refused it.
        } else if constexpr (requires { model->image; }) {
          arguments.image ? write(model->image) : write(model->text);
        } else {
          write(model);
        }
      },
      opened);
}

}  // namespace

void add_attention(Command& app) {
  Command* command = add_command(
      app, "attention",
      "Draw a model's attention weights for one input: every layer and head. An encoder-decoder\n"
      "(t5, marian) reads a source and its translation, a language model (gpt2, llama, ...) or a\n"
      "text encoder (bert, ...) one text, an image encoder (vit, deit) an image, drawn with attention\n"
      "rollout. A .html file is a self-contained page, .svg a drawing of all heads, .json the numbers.",
      "qkv attention model --source 'A small house.' --out attention.html\n"
      "  qkv attention vit --image cat.jpg --out cat.html");
  const auto arguments = std::make_shared<AttentionArguments>();
  add_model_argument(*command, arguments->model, ModelPath::folder_or_gguf);
  add_load_options(*command, arguments->load);
  add_option(*command, "--source", arguments->source, "TEXT",
             "Text that the model reads; not for image models (default: none)");
  add_option(*command, "--target", arguments->target, "TEXT",
             "Translation of the source; encoder-decoders only (default: the model's own)");
  add_option(*command, "--pair", arguments->pair, "TEXT",
             "Second text, which the model reads after the source; text encoders only (default: none)");
  add_option(
      *command, "--tile", arguments->tile, "TOKENS",
      "Draw runs of this many tokens as one query and one key; 1: each token; 0: each token up to 256,\n"
      "beyond 128 tiles; language models and text encoders only (default: 0)");
  add_choice(*command, "--part", arguments->drawing.part,
             {{"encoder", explain::Part::encoder},
              {"decoder", explain::Part::decoder},
              {"cross", explain::Part::cross}},
             "Draw this part; .svg of texts only (default: all)");
  add_option(*command, "--layer", arguments->layer, "N",
             "Draw this layer, counted from 1; .svg of texts only (default: all)")
      ->check(at_least(1));
  add_option(*command, "--head", arguments->head, "N",
             "Draw this head, counted from 1; .svg of texts only (default: all)")
      ->check(at_least(1));
  command->add_flag("--dark", arguments->drawing.dark, "Draw on a dark background; .svg of texts only");
  add_option(*command, "--image", arguments->image, "FILE",
             "PNG or JPEG file that the model reads; image models only (default: none)");
  add_image_options(*command, arguments->images);
  add_option(*command, "--out", arguments->out, "FILE",
             "File to write; the name ends in .html, .svg or .json")
      ->required();
  add_threads_option(*command);
  command->callback([arguments] { write_attention(*arguments); });
}

}  // namespace qkv::apps
