#include <iomanip>
#include <memory>
#include <sstream>

#include "apps/line_results.h"
#include "qkv/pipelines/text_encoder.h"

namespace qkv::apps {
namespace {

struct Arguments {
  LineArguments lines;
  int64_t guesses = 5;
};

nlohmann::ordered_json fields_of(const pipelines::FilledText& filled, const Line& /*line*/) {
  nlohmann::ordered_json masks = nlohmann::ordered_json::array();
  for (const auto& guesses : filled.masks) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const pipelines::MaskPrediction& guess : guesses) {
      list.push_back({{"token", guess.token},
                      {"id", guess.id},
                      {"probability", guess.probability},
                      {"text", guess.text}});
    }
    masks.push_back(std::move(list));
  }
  return {{"masks", std::move(masks)}};
}

std::string text_of(const pipelines::FilledText& filled, const Line& line) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(6);
  for (size_t mask = 0; mask < filled.masks.size(); ++mask) {
    for (const pipelines::MaskPrediction& guess : filled.masks[mask]) {
      if (text.tellp() > 0) text << '\n';
      text << line.number << '\t' << mask + 1 << '\t' << guess.probability << '\t' << guess.token << '\t'
           << guess.text;
    }
  }
  return text.str();
}

void fill_mask(const Arguments& arguments) {
  const pipelines::TextEncoderPipeline tasks(arguments.lines.model, arguments.lines.load);
  print_results(
      arguments.lines,
      [&](int64_t /*first*/, std::span<const std::string> lines) {
        return tasks.fill_masks(lines, arguments.guesses);
      },
      text_of, fields_of);
}

}  // namespace

void add_fill_mask(CLI::App& app) {
  CLI::App* command = add_command(
      app, "fill-mask",
      "Guess the words that are missing from each line of stdin, where it says [MASK] (or <mask>, as the\n"
      "model spells it). Prints for each guess: the line's number, the mask's, its probability, the token, "
      "and\n"
      "the line with it.",
      "echo 'Paris is the [MASK] of France.' | qkv fill-mask bert-base-uncased");
  const auto arguments = std::make_shared<Arguments>();
  add_line_options(*command, arguments->lines);
  command->add_option("--guesses", arguments->guesses, "Guesses for each mask, the likeliest first")
      ->capture_default_str();
  command->callback([arguments] { fill_mask(*arguments); });
}

}  // namespace qkv::apps
