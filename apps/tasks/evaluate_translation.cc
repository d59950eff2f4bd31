// qkv evaluate translation

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/cli/messages.h"
#include "apps/command.h"
#include "apps/decode_options.h"
#include "apps/load_options.h"
#include "apps/scores.h"
#include "apps/tasks/evaluations.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/parallel.h"

namespace qkv::apps {
namespace {

struct EvaluateTranslationArguments {
  std::string model, source;
  std::vector<std::string> references;
  std::string save_output;
  models::LoadOptions load;
  DecodeArguments decode;
  ScoreArguments scores;
};

struct Run {
  std::vector<std::string> translations;
  int64_t source_tokens = 0, target_tokens = 0;
  double seconds = 0;
};

Run translate(const pipelines::Translator& translator, const std::vector<std::string>& sources,
              const EvaluateTranslationArguments& arguments, const pipelines::TranslateOptions& options) {
  constexpr size_t kChunk = 1024;  // sentences that are batched by length together
  const auto started = std::chrono::steady_clock::now();
  const bool progress = stderr_is_terminal();
  Run run;
  for (size_t begin = 0; begin < sources.size(); begin += kChunk) {
    const size_t count = std::min(kChunk, sources.size() - begin);
    for (const pipelines::Translation& one :
         translator(std::span(sources).subspan(begin, count), options, arguments.decode.engine.engine,
                    arguments.decode.engine.step_model)) {
      const size_t line = run.translations.size() + 1;
      if (!one.error.empty()) throw DataError(concat(arguments.source, ":", line, ": ", one.error));
      if (one.truncated) {
        say(concat(arguments.source, ":", line, ": only the first ", one.source_pieces.size(), " of ",
                   one.source_tokens, " source tokens were translated"));
      }
      run.source_tokens += one.source_tokens;
      if (!one.hypotheses.empty())
        run.target_tokens += static_cast<int64_t>(one.hypotheses[0].hypothesis.ids.size());
      run.translations.push_back(one.text);
    }
    if (progress) std::cerr << "\rtranslated " << run.translations.size() << " of " << sources.size();
  }
  if (progress) std::cerr << "\r\033[K";
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return run;
}

int64_t per_second(int64_t count, double seconds) {
  return static_cast<int64_t>(static_cast<double>(count) / std::max(seconds, 1e-9));
}

void evaluate(const EvaluateTranslationArguments& arguments) {
  const std::vector<std::string> sources = read_lines(arguments.source);
  std::vector<std::vector<std::string>> reference_sets;
  for (const std::string& path : arguments.references) {
    reference_sets.push_back(read_lines(path));
    require_as_many_lines(arguments.source, sources.size(), path, reference_sets.back().size());
  }
  const pipelines::Translator translator(arguments.model, arguments.load);
  const pipelines::TranslateOptions options = translate_options(translator.model(), arguments.decode);
  options.search.validate();
  // Opened before translating, so that an unwritable folder fails early.
  std::optional<AtomicFile> output;
  if (!arguments.save_output.empty()) output.emplace(arguments.save_output);

  const Run run = translate(translator, sources, arguments, options);
  if (output) {
    for (const std::string& line : run.translations) output->write(line + "\n");
    output->commit();
  }
  const auto lines = static_cast<int64_t>(sources.size());
  say(concat(counted(lines, "lines"), " in ", fixed(run.seconds, 2),
             " s: ", grouped(per_second(lines, run.seconds)), " lines/s, ",
             grouped(per_second(run.target_tokens, run.seconds)), " target tokens/s (beam ",
             options.search.beam, ", length penalty ", options.search.length_penalty, ", ",
             counted(threads(), "threads"), ")"));
  if (!arguments.scores.json) {
    std::cout << score_text(run.translations, reference_sets, arguments.scores);
    return;
  }
  nlohmann::ordered_json result = score_json(run.translations, reference_sets, arguments.scores);
  result["lines"] = lines;
  result["source_tokens"] = run.source_tokens;
  result["target_tokens"] = run.target_tokens;
  result["seconds"] = run.seconds;
  result["beam"] = options.search.beam;
  result["length_penalty"] = options.search.length_penalty;
  std::cout << result.dump(2) << '\n';
}

}  // namespace

void add_translation_evaluation(Command& group) {
  Command* command = add_command(
      group, "translation",
      "Translate a file and score the translations against references. Prints BLEU and chrF2 as\n"
      "sacreBLEU computes them, and the speed on stderr. A line that cannot be translated is an error.",
      "qkv evaluate translation model --src test.en --ref test.de --beam 4");
  const auto arguments = std::make_shared<EvaluateTranslationArguments>();
  add_model_argument(*command, arguments->model, ModelPath::folder);
  add_option(*command, "--src", arguments->source, "FILE", "Text to translate, one sentence per line")
      ->required();
  add_option(*command, "--ref", arguments->references, "FILE",
             "Reference translation of each line; may be given several times, for several references")
      ->required();
  add_option(*command, "--save-output", arguments->save_output, "FILE",
             "Write the translations to this file (default: none)");
  add_load_options(*command, arguments->load);
  add_decode_options(*command, arguments->decode);
  add_score_options(*command, arguments->scores);
  add_threads_option(*command);
  command->callback([arguments] { evaluate(*arguments); });
}

}  // namespace qkv::apps
