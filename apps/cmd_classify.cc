#include <algorithm>
#include <iomanip>
#include <memory>
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
  bool pairs = false;
  std::optional<int64_t> top;
};

// The likeliest of them, as many as are wanted.
std::span<const pipelines::LabelProbability> best(const pipelines::Classified& found, int64_t wanted) {
  return std::span(found.labels).first(std::min(static_cast<size_t>(wanted), found.labels.size()));
}

// `find` classifies some lines.
template <class Find>
void classify_lines(const Arguments& arguments, const Find& find) {
  print_results(
      arguments.lines, [&](int64_t /*first*/, std::span<const std::string> lines) { return find(lines); },
      [&](const pipelines::Classified& found, const Line& /*line*/) {
        std::ostringstream text;
        text << std::fixed << std::setprecision(6);
        for (const auto& [label, probability] : best(found, arguments.top.value_or(1))) {
          text << (text.tellp() > 0 ? "\t" : "") << label << '\t' << probability;
        }
        return text.str();
      },
      [&](const pipelines::Classified& found, const Line& /*line*/) {
        nlohmann::ordered_json list = nlohmann::ordered_json::array();
        for (const auto& [label, probability] : best(found, arguments.top.value_or(INT32_MAX))) {
          list.push_back({{"label", label}, {"probability", probability}});
        }
        return nlohmann::ordered_json{{"labels", std::move(list)}};
      });
}

void classify(const Arguments& arguments) {
  if (arguments.top && *arguments.top < 1) {
    throw UsageError(concat("--top: expected at least 1, found ", *arguments.top));
  }
  if (models::folder_kind(arguments.lines.model) == models::FolderKind::image) {
    if (arguments.pairs) throw UsageError("--pairs: expected a model that reads text, found one of images");
    const pipelines::ImageEncoderPipeline tasks(arguments.lines.model,
                                                image_task_options(arguments.images, arguments.lines.load));
    return classify_lines(arguments, [&](auto lines) { return tasks.classify(lines); });
  }
  require_no_images(arguments.images);
  const pipelines::TextEncoderPipeline tasks(arguments.lines.model, arguments.lines.load);
  classify_lines(arguments, [&](auto lines) { return tasks.classify(lines, arguments.pairs); });
}

}  // namespace

void add_classify(CLI::App& app) {
  CLI::App* command = add_command(
      app, "classify",
      "Label each line of stdin: the likeliest label, a tab and its probability; with --json all of\n"
      "them. The model is a sequence classifier (bert, roberta, distilbert), or one of images (vit,\n"
      "deit), whose lines are the paths of PNG and JPEG files.",
      "echo 'What a film!' | qkv classify distilbert-sst2\n  ls *.jpg | qkv classify vit-base-patch16-224 "
      "--top 3");
  const auto arguments = std::make_shared<Arguments>();
  add_line_options(*command, arguments->lines);
  add_image_options(*command, arguments->images);
  command->add_option("--top", arguments->top,
                      "How many labels, the likeliest first (default: 1, and all with --json)");
  command->add_flag("--pairs", arguments->pairs,
                    "A tab parts a line in two texts, which are judged together");
  command->callback([arguments] { classify(*arguments); });
}

}  // namespace qkv::apps
