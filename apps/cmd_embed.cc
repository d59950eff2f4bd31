#include <iomanip>
#include <limits>
#include <map>
#include <memory>
#include <sstream>

#include "apps/line_results.h"
#include "qkv/decode/text_tasks.h"

namespace qkv::apps {
namespace {

struct Arguments {
  LineArguments lines;
  decode::EmbedOptions options;
};

std::string text_of(const decode::TextVector& vector, const Line& /*line*/) {
  std::ostringstream text;
  text << std::setprecision(std::numeric_limits<float>::max_digits10);
  for (size_t c = 0; c < vector.values.size(); ++c) text << (c > 0 ? " " : "") << vector.values[c];
  return text.str();
}

nlohmann::ordered_json fields_of(const decode::TextVector& vector, const Line& /*line*/) {
  return {{"vector", vector.values}};
}

void embed(const Arguments& arguments) {
  const decode::TextTasks tasks(arguments.lines.model, arguments.lines.load);
  print_results(
      arguments.lines,
      [&](int64_t /*first*/, std::span<const std::string> lines) {
        return tasks.embed(lines, arguments.options);
      },
      text_of, fields_of);
}

}  // namespace

void add_embed(CLI::App& app) {
  CLI::App* command =
      add_command(app, "embed",
                  "A vector for each line of stdin, as an encoder (bert, roberta, distilbert) sees "
                  "it: its numbers with\n"
                  "spaces between them.",
                  "qkv embed bert-base-uncased --pool mean --normalize < sentences.txt");
  const auto arguments = std::make_shared<Arguments>();
  add_line_options(*command, arguments->lines);
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
