// qkv bleu

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/scores.h"

namespace qkv::apps {
namespace {

struct BleuArguments {
  std::string hypotheses;
  std::vector<std::string> references;
  ScoreArguments scores;
};

void print_scores(const BleuArguments& arguments) {
  const std::vector<std::string> hypotheses = read_lines(arguments.hypotheses);
  std::vector<std::vector<std::string>> reference_sets;
  for (const std::string& path : arguments.references) {
    reference_sets.push_back(read_lines(path));
    require_as_many_lines(arguments.hypotheses, hypotheses.size(), path, reference_sets.back().size());
  }
  if (arguments.scores.json) {
    std::cout << score_json(hypotheses, reference_sets, arguments.scores).dump(2) << '\n';
  } else {
    std::cout << score_text(hypotheses, reference_sets, arguments.scores);
  }
}

}  // namespace

void add_bleu(Command& app) {
  Command* command = add_command(app, "bleu",
                                 "Compute BLEU and chrF2 of translations, with sacreBLEU's results.\n"
                                 "BLEU uses the tokenizer 13a and exponential smoothing. Both score "
                                 "the whole file. A byte order mark at the beginning of a file is skipped;\n"
                                 "sacreBLEU counts it as a character.",
                                 "qkv translate model < test.en | qkv bleu - test.de");
  const auto arguments = std::make_shared<BleuArguments>();
  add_option(*command, "HYP", arguments->hypotheses, "FILE", "Translations, one per line; - is stdin")
      ->required();
  add_option(*command, "REF", arguments->references, "FILE",
             "Reference translations; several files: several references")
      ->required();
  add_score_options(*command, arguments->scores);
  command->callback([arguments] { print_scores(*arguments); });
}

}  // namespace qkv::apps
