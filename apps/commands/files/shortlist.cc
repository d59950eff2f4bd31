// qkv shortlist

#include <memory>

#include "apps/cli/messages.h"
#include "apps/load_options.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/data/corpus.h"
#include "qkv/models/translation_model.h"
#include "qkv/search/shortlist.h"

namespace qkv::apps {
namespace {

struct ShortlistArguments {
  std::string model, out;
  data::CorpusFiles files;
  int64_t max_lines = 500'000;
  search::ShortlistOptions options;
};

std::vector<data::LinePair> read_pairs(const ShortlistArguments& arguments) {
  data::ParallelReader reader(arguments.files, {.bad_utf8 = data::OnBadLine::skip});
  std::vector<data::LinePair> lines;
  for (data::LinePair pair; std::ssize(lines) < arguments.max_lines && reader.next(pair);)
    lines.push_back(pair);
  return lines;
}

void make_shortlist(const ShortlistArguments& arguments) {
  if (arguments.max_lines < 1)
    throw UsageError(concat("--max-lines: expected at least 1, found ", arguments.max_lines));
  arguments.options.validate();
  const models::TranslationModel model = models::load_translation_model(arguments.model);
  const std::vector<data::LinePair> lines = read_pairs(arguments);
  std::vector<search::TokenPair> pairs(lines.size());
  parallel_for(std::ssize(lines), 64, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      pairs[i] = {model.tokenizer->encode_source(lines[i].source),
                  model.tokenizer->encode_target(lines[i].target)};
    }
  });
  const auto shortlist = search::Shortlist::learn(pairs, model.config.source_vocabulary,
                                                  model.config.target_vocabulary, arguments.options);
  shortlist.save(arguments.out);
  int64_t allowed = 0;
  for (const search::TokenPair& pair : pairs) allowed += std::ssize(shortlist.allowed(pair.source, {}));
  say(concat(arguments.out, ": learned from ", counted(std::ssize(pairs), "pairs"),
             " of lines; it allows them ", allowed / std::ssize(pairs), " of ",
             model.config.target_vocabulary, " target tokens on average"));
}

}  // namespace

void add_shortlist(Command& app) {
  Command* command = add_command(
      app, "shortlist",
      "Learn a lexical shortlist from translations: the likely target tokens of each source token, for\n"
      "'qkv translate --shortlist'.\n"
      "Uses IBM model 1 (Brown et al. 1993).",
      "qkv shortlist --model model --src train.en --tgt train.de --out model.shortlist");
  const auto arguments = std::make_shared<ShortlistArguments>();
  add_model_option(*command, "--model", arguments->model, "Model folder, or name, for its vocabularies")
      ->required();
  add_option(*command, "--src", arguments->files.source, "FILE", "Source text, one sentence per line")
      ->required();
  add_option(*command, "--tgt", arguments->files.target, "FILE", "Its translation, line by line")->required();
  add_option(*command, "--out", arguments->out, "FILE", "File to write")->required();
  add_option(*command, "--per-token", arguments->options.per_token, "TOKENS",
             "Most likely target tokens kept per source token");
  add_option(*command, "--frequent", arguments->options.frequent, "TOKENS",
             "Most frequent target tokens, allowed for every source");
  add_option(*command, "--iterations", arguments->options.iterations, "N",
             "Iterations of expectation maximisation");
  add_option(*command, "--max-lines", arguments->max_lines, "LINES",
             "Maximum number of line pairs, from the first");
  add_threads_option(*command);
  command->callback([arguments] { make_shortlist(*arguments); });
}

}  // namespace qkv::apps
