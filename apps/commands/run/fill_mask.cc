// qkv fill-mask

#include <iomanip>
#include <memory>
#include <sstream>

#include "apps/line_results.h"
#include "qkv/pipelines/fill_mask.h"

namespace qkv::apps {
namespace {

struct FillMaskArguments {
  LineArguments lines;
  pipelines::FillMaskOptions options;
};

std::string filled_text(const pipelines::FilledText& filled, const pipelines::Line& line) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(6);
  for (size_t mask = 0; mask < filled.masks.size(); ++mask) {
    for (const pipelines::MaskPrediction& one : filled.masks[mask]) {
      if (text.tellp() > 0) text << '\n';
      text << line.number << '\t' << mask + 1 << '\t' << one.probability << '\t' << one.token << '\t'
           << one.text;
    }
  }
  return text.str();
}

void fill_mask(const FillMaskArguments& arguments) {
  const pipelines::MaskFiller filler(arguments.lines.model, arguments.lines.load);
  print_results(
      arguments.lines, Inputs::texts,
      [&](std::span<const std::string> texts, auto&&...) { return filler(texts, arguments.options); },
      filled_text, [](const pipelines::FilledText& filled) { return to_json(filled); });
}

}  // namespace

void add_fill_mask(Command& app) {
  Command* command = add_command(
      app, "fill-mask",
      "Predict the masked words of texts, or of each line of stdin. A mask is spelled as in the model's\n"
      "vocabulary, [MASK] or <mask>. Prints one line per prediction: the line's number, the mask's number, "
      "the\n"
      "probability, the token, and the line with that token, separated by tabs. The model is one with\n"
      "a masked-language head (bert, roberta, modernbert, ...).",
      "qkv fill-mask bert-base-uncased 'Paris is the [MASK] of France.'");
  const auto arguments = std::make_shared<FillMaskArguments>();
  add_line_options(*command, arguments->lines);
  add_option(*command, "--top", arguments->options.count, "N", "Predictions per mask, most likely first")
      ->check(at_least(1));
  run_on_ranks(*command, arguments->lines, [arguments] { fill_mask(*arguments); });
}

}  // namespace qkv::apps
