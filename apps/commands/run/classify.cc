// qkv classify

#include <algorithm>
#include <iomanip>
#include <memory>
#include <sstream>

#include "apps/image_options.h"
#include "apps/line_results.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/pipelines/classify.h"
#include "qkv/pipelines/images/images.h"

namespace qkv::apps {
namespace {

struct ClassifyArguments {
  LineArguments lines;
  ImageArguments images;
  pipelines::ClassifyOptions options;
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
  if (models::folder_kind(model) == models::FolderKind::image) {
    if (arguments.options.pairs) throw UsageError("--pairs: only for text models");
    const pipelines::ImageClassifier classifier(model, image_options(arguments.images), load);
    return classify_lines(arguments, Inputs::image_files, [&](auto paths) { return classifier(paths); });
  }
  require_no_images(arguments.images);
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
      "the name and a tab.",
      "qkv classify distilbert-sst2 'What a film!'\n  qkv classify vit-base-patch16-224 *.jpg --top 3\n"
      "  qkv classify distilbert-sst2 < reviews.txt");
  const auto arguments = std::make_shared<ClassifyArguments>();
  add_line_options(*command, arguments->lines, "Texts, or image files if the model is one of images");
  add_image_options(*command, arguments->images);
  add_option(*command, "--top", arguments->top, "N",
             "Labels per line, most likely first (default: 1; with --json all)")
      ->check(at_least(1));
  command->add_flag("--pairs", arguments->options.pairs,
                    "A tab separates two texts of a line, which are classified as a pair");
  run_on_ranks(*command, arguments->lines, [arguments] { classify(*arguments); });
}

}  // namespace qkv::apps
