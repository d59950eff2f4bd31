// qkv embed

#include <iomanip>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>

#include "apps/image_options.h"
#include "apps/line_results.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/pipelines/checks.h"
#include "qkv/pipelines/embed.h"
#include "qkv/pipelines/images/images.h"
#include "qkv/pipelines/sentence_transformers/sentence_transformer.h"

namespace qkv::apps {
namespace {

struct EmbedArguments {
  LineArguments lines;
  ImageArguments images;
  bool reads_images = false, sparse = false;
  std::optional<int64_t> top;
  // Unset options default to the folder's.
  std::optional<pipelines::Pooling> pooling;
  std::optional<bool> normalize;
  std::optional<int64_t> max_length;
  std::optional<int64_t> dimensions;
  std::optional<std::string> prompt, prompt_name;
};

pipelines::EmbedOptions vector_options(const EmbedArguments& arguments,
                                       const pipelines::EmbedOptions& folder) {
  return {.pooling = arguments.pooling.value_or(folder.pooling),
          .normalize = arguments.normalize.value_or(folder.normalize),
          .dimensions = arguments.dimensions};
}

// The folder's options, with the length and the prompt of the command line.
template <class Embedder>
auto text_options(const EmbedArguments& arguments, const Embedder& embedder) {
  if (arguments.prompt && arguments.prompt_name)
    throw UsageError("--prompt-name: expected none beside --prompt, found one");
  if (arguments.prompt) pipelines::require_text("--prompt", *arguments.prompt);
  auto options = embedder.default_options();
  if (arguments.max_length) options.max_length = arguments.max_length;
  if (arguments.prompt_name)
    options.prompt = pipelines::named_prompt(embedder.encoder()->folder, *arguments.prompt_name);
  if (arguments.prompt) options.prompt = *arguments.prompt;
  return options;
}

std::string vector_text(const pipelines::Embedded& vector, const pipelines::Line& /*line*/) {
  std::ostringstream text;
  text << std::setprecision(std::numeric_limits<float>::max_digits10);
  for (size_t c = 0; c < vector.values.size(); ++c) text << (c > 0 ? " " : "") << vector.values[c];
  return text.str();
}

std::string weights_text(const pipelines::SparseEmbedded& embedded, const pipelines::Line& /*line*/) {
  std::ostringstream text;
  text << std::setprecision(std::numeric_limits<float>::max_digits10);
  for (const pipelines::TokenWeight& one : embedded.weights)
    text << (text.tellp() > 0 ? " " : "") << one.token << ':' << one.weight;
  return text.str();
}

// `run` embeds a chunk of lines.
template <class Run, class Text>
void embed_lines(const EmbedArguments& arguments, Inputs inputs, const Run& run, const Text& text) {
  print_results(
      arguments.lines, inputs, [&](std::span<const std::string> lines, auto&&...) { return run(lines); },
      text, [](const auto& result) { return to_json(result); });
}

void embed(const EmbedArguments& arguments) {
  const std::string& model = arguments.lines.model;
  const models::LoadOptions& load = arguments.lines.load;
  const models::FolderKind kind = models::folder_kind(model);
  const bool both = kind == models::FolderKind::image_text;
  if (arguments.reads_images && !both && kind != models::FolderKind::image)
    throw UsageError("--images: only for models of images and texts (clip, siglip)");
  if (kind == models::FolderKind::image || (both && arguments.reads_images)) {
    if (arguments.sparse) throw UsageError("--sparse: only for text models");
    if (arguments.max_length) throw UsageError("--max-length: only for text models");
    if (arguments.prompt || arguments.prompt_name) throw UsageError("--prompt: only for text models");
    const pipelines::ImageEmbedder embedder(model, image_options(arguments.images), load);
    const pipelines::EmbedOptions options = vector_options(arguments, embedder.default_options());
    return embed_lines(
        arguments, Inputs::image_files, [&](auto paths) { return embedder(paths, options); }, vector_text);
  }
  require_no_images(arguments.images);
  if (arguments.sparse) {
    if (arguments.pooling || arguments.normalize || arguments.dimensions)
      throw UsageError("--pool, --normalize, --dimensions: not with --sparse");
    const pipelines::SparseEmbedder embedder(model, load);
    pipelines::SparseEmbedOptions options = text_options(arguments, embedder);
    options.top = arguments.top;
    return embed_lines(
        arguments, Inputs::texts, [&](auto texts) { return embedder(texts, options); }, weights_text);
  }
  const pipelines::TextEmbedder embedder(model, load);
  if (pipelines::sentence_modules(embedder.encoder()->folder) == pipelines::SentenceModules::sparse)
    throw UsageError(concat("embed: expected --sparse, as ", model, " has sparse embeddings, found none"));
  pipelines::TextEmbedOptions options = text_options(arguments, embedder);
  options.vector = vector_options(arguments, options.vector);
  embed_lines(
      arguments, Inputs::texts, [&](auto texts) { return embedder(texts, options); }, vector_text);
}

}  // namespace

void add_embed(Command& app) {
  Command* command = add_command(
      app, "embed",
      "Compute a vector for texts, or for each line of stdin. Prints its numbers, separated by spaces. The\n"
      "model is a text encoder (bert, xlm-roberta, t5), a decoder, whose hidden states are pooled\n"
      "(Qwen3-Embedding), or an image encoder (vit, deit): its inputs are names of PNG and JPEG files, and\n"
      "each vector follows the name and a tab. Models of both (clip, siglip) have vectors of texts, or with\n"
      "--images of images, in one space. A sentence-transformers folder (modules.json) sets the defaults\n"
      "of pooling, normalisation, length and prompt. With --sparse, a model with a\n"
      "masked-language head (bert, distilbert, ...) weighs the tokens of its vocabulary (SPLADE); prints\n"
      "\"token:weight token:weight ...\".",
      "qkv embed all-MiniLM-L6-v2 < sentences.txt\n"
      "  qkv embed Qwen3-Embedding-0.6B --prompt-name query --dimensions 256 < queries.txt\n"
      "  qkv embed bert-base-uncased --pool mean --normalize < sentences.txt\n"
      "  qkv embed vit-base-patch16-224-in21k *.jpg --pool cls\n"
      "  qkv embed splade-cocondenser-ensembledistil --sparse --top 20 \"What is a cat?\"\n"
      "  qkv embed clip-vit-base-patch32 --images *.jpg --normalize");
  const auto arguments = std::make_shared<EmbedArguments>();
  add_line_options(*command, arguments->lines, "Texts, or image files if the model is one of images",
                   ModelPath::folder_or_gguf);
  command->add_flag("--images", arguments->reads_images,
                    "Inputs are image files: for models of images and texts, which read texts without it");
  add_image_options(*command, arguments->images);
  Option* sparse = command->add_flag(
      "--sparse", arguments->sparse,
      "Weights of vocabulary tokens, largest first, instead of a vector: for models of SPLADE");
  add_option(*command, "--top", arguments->top, "N",
             "With --sparse, the N largest weights (default: all that are not 0)")
      ->check(at_least(1))
      ->needs(sparse);
  add_choice(*command, "--pool", arguments->pooling,
             {{"mean", pipelines::Pooling::mean},
              {"cls", pipelines::Pooling::cls},
              {"max", pipelines::Pooling::max},
              {"last", pipelines::Pooling::last_token},
              {"weighted-mean", pipelines::Pooling::weighted_mean},
              {"mean-sqrt-len", pipelines::Pooling::mean_sqrt_len},
              {"pooler", pipelines::Pooling::pooler}},
             "Pooling of token vectors into one vector (default: the folder's, or mean)\n"
             "  mean: their mean\n"
             "  cls: the first token's\n"
             "  max: their maximum, per feature\n"
             "  last: the last token's\n"
             "  weighted-mean: their mean with weights 1, 2, ...\n"
             "  mean-sqrt-len: their sum, divided by the square root of their number\n"
             "  pooler: the model's pooler");
  // Not bound to the variable itself, which would be set to false before parsing.
  command->add_flag_function(
      "--normalize,!--no-normalize", [arguments](int64_t count) { arguments->normalize = count > 0; },
      "Scale vectors to length 1, or not (default: the folder's, or not)");
  add_option(
      *command, "--dimensions", arguments->dimensions, "N",
      "Keep the first N numbers of each vector, which --normalize then scales: for models trained with\n"
      "matryoshka losses (default: all)")
      ->check(at_least(1));
  add_option(*command, "--max-length", arguments->max_length, "TOKENS",
             "Maximum tokens of a line, special tokens included; the rest is cut off (default: the\n"
             "folder's; without one, a line longer than the model's positions is an error)")
      ->check(at_least(1));
  add_option(*command, "--prompt", arguments->prompt, "TEXT",
             "Text put before each line (default: the folder's, or none)");
  add_option(*command, "--prompt-name", arguments->prompt_name, "NAME",
             "The prompt of that name in config_sentence_transformers.json: query, document (default: the\n"
             "folder's)");
  run_on_ranks(*command, arguments->lines, [arguments] { embed(*arguments); });
}

}  // namespace qkv::apps
