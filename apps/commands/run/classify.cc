// qkv classify

#include <algorithm>
#include <iomanip>
#include <memory>
#include <sstream>

#include "apps/cli/field_options.h"
#include "apps/image_options.h"
#include "apps/line_results.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/pipelines/classify.h"
#include "qkv/pipelines/images/images.h"
#include "qkv/pipelines/zero_shot/image_zero_shot.h"
#include "qkv/pipelines/zero_shot/labels.h"
#include "qkv/pipelines/zero_shot/zero_shot.h"

namespace qkv::apps {
namespace {

struct ClassifyArguments {
  LineArguments lines;
  ImageArguments images;
  pipelines::ClassifyOptions options;
  std::string labels;
  GivenFields zero_shot;
  std::optional<size_t> top;
};

// `run` classifies a chunk of lines.
template <class Run>
void classify_lines(const ClassifyArguments& arguments, Inputs inputs, const Run& run) {
  print_results(
      arguments.lines, inputs, [&](std::span<const std::string> lines, auto&&...) { return run(lines); },
      [&](const pipelines::Classified& found, const pipelines::Line& /*line*/) {
        std::ostringstream text;
        text << std::fixed << std::setprecision(6);
        const size_t count = std::min(arguments.top.value_or(1), found.labels.size());
        for (const auto& [label, probability] : std::span(found.labels).first(count)) {
          text << (text.tellp() > 0 ? "\t" : "") << label << '\t' << probability;
        }
        return text.str();
      },
      [&](const pipelines::Classified& found) {
        return to_json(found, arguments.top.value_or(found.labels.size()));
      });
}

void classify(const ClassifyArguments& arguments) {
  const std::string& model = arguments.lines.model;
  const models::LoadOptions& load = arguments.lines.load;
  if (arguments.labels.empty() && arguments.zero_shot.any())
    throw UsageError("--hypothesis, --multi-label: expected --labels beside them, found none");
  const models::FolderKind kind = models::folder_kind(model);
  if (kind == models::FolderKind::image) {
    if (!arguments.labels.empty())
      throw UsageError("--labels: only for models of texts, and of images and texts (clip, siglip)");
    if (arguments.options.pairs) throw UsageError("--pairs: only for text models");
    const pipelines::ImageClassifier classifier(model, image_options(arguments.images), load);
    return classify_lines(arguments, Inputs::image_files, [&](auto paths) { return classifier(paths); });
  }
  if (kind == models::FolderKind::image_text) {
    if (arguments.labels.empty())
      throw UsageError(concat("--labels: expected labels, as ", model, " has none of its own, found none"));
    if (arguments.options.pairs) throw UsageError("--pairs: only for text models");
    if (arguments.zero_shot.has("multi_label"))
      throw UsageError("--multi-label: only for models of natural language inference");
    const pipelines::ImageZeroShotClassifier classifier(model, image_options(arguments.images), load);
    pipelines::ImageZeroShotOptions options;
    arguments.zero_shot.apply(options);
    const pipelines::LabelVectors labels =
        classifier.label_vectors(pipelines::listed_labels(arguments.labels), options);
    return classify_lines(arguments, Inputs::image_files,
                          [&](auto paths) { return classifier(paths, labels); });
  }
  require_no_images(arguments.images);
  if (!arguments.labels.empty()) {
    if (arguments.options.pairs) throw UsageError("--pairs: not with --labels");
    const pipelines::ZeroShotClassifier classifier(model, load);
    pipelines::ZeroShotOptions options;
    arguments.zero_shot.apply(options);
    const std::vector<std::string> labels = pipelines::listed_labels(arguments.labels);
    return classify_lines(arguments, Inputs::texts,
                          [&](auto texts) { return classifier(texts, labels, options); });
  }
  const pipelines::TextClassifier classifier(model, load);
  classify_lines(arguments, Inputs::texts, [&](auto texts) { return classifier(texts, arguments.options); });
}

}  // namespace

void add_classify(Command& app) {
  Command* command = add_command(
      app, "classify",
      "Classify texts, or each line of stdin. Prints the most likely label and its probability, separated\n"
      "by a tab; with --json all labels. The model is a sequence classifier (bert, deberta-v2, ...), or\n"
      "an image classifier (vit, deit): its inputs are names of PNG and JPEG files, and each result follows\n"
      "the name and a tab. --labels are labels of your own, for models of natural language inference and,\n"
      "of images, clip and siglip.",
      "qkv classify distilbert-sst2 'What a film!'\n  qkv classify vit-base-patch16-224 *.jpg --top 3\n"
      "  qkv classify distilbert-sst2 < reviews.txt\n"
      "  qkv classify deberta-v3-base-mnli --labels 'sport, politics, music' --top 3 < news.txt\n"
      "  qkv classify clip-vit-base-patch32 --labels 'a cat, a dog' *.jpg");
  const auto arguments = std::make_shared<ClassifyArguments>();
  add_line_options(*command, arguments->lines, "Texts, or image files if the model is one of images");
  add_image_options(*command, arguments->images);
  add_option(*command, "--top", arguments->top, "N",
             "Labels per line, most likely first (default: 1; with --json all)")
      ->check(at_least(1));
  command->add_flag("--pairs", arguments->options.pairs,
                    "A tab separates two texts of a line, which are classified as a pair");
  add_option(*command, "--labels", arguments->labels, "LABEL,...",
             "Labels that the model was not trained on, instead of its own: for models of natural language\n"
             "inference, and models of images and texts, which have none (default: the model's)");
  add_field_options<pipelines::ZeroShotOptions>(*command, arguments->zero_shot, {""});
  run_on_ranks(*command, arguments->lines, [arguments] { classify(*arguments); });
}

}  // namespace qkv::apps
