// qkv translate

#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/decode_options.h"
#include "apps/line_results.h"
#include "apps/profile_report.h"
#include "apps/sampling_options.h"
#include "apps/trace_file.h"
#include "qkv/base/error.h"
#include "qkv/hub/cache.h"
#include "qkv/pipelines/translate.h"

namespace qkv::apps {
namespace {

using pipelines::TranslatedHypothesis;
using pipelines::Translation;

struct TranslateArguments {
  LineArguments lines;
  DecodeArguments decode;
  std::optional<int> alternatives;
  SamplingArguments sampling;
  std::vector<std::string> ensemble;
  std::optional<std::string> trace;
  pipelines::TranslationFields fields;
  bool prefixes = false, profile = false;
};

// "[line <tab>] [score <tab>] text [ ||| alignment]": with the line's number if a line may have several
// translations.
void print_text(int64_t line, const Translation& translation, int nbest, const TranslateArguments& arguments,
                std::ostream& out) {
  const auto print = [&](const TranslatedHypothesis& one) {
    if (nbest > 1) out << line << '\t';
    if (arguments.fields.scores) out << std::fixed << std::setprecision(6) << one.hypothesis.score << '\t';
    out << one.text;
    if (arguments.fields.alignment) out << " |||";
    for (size_t i = 0; i < one.alignment.size(); ++i) out << ' ' << one.alignment[i] << '-' << i;
    out << '\n';
  };
  if (!translation.error.empty()) {
    out << (nbest > 1 ? concat(line, '\t') : "") << failed_line(arguments.lines, line, translation.error)
        << '\n';
  } else if (translation.hypotheses.empty()) {
    print({});
  }
  for (const TranslatedHypothesis& one : translation.hypotheses) print(one);
}

pipelines::TranslateOptions options_of(const models::TranslationModel& model,
                                       const TranslateArguments& arguments) {
  pipelines::TranslateOptions options = translate_options(model, arguments.decode);
  if (arguments.alternatives) {
    options.search.alternatives = true;
    options.search.nbest = *arguments.alternatives;
  }
  options.alignment = arguments.fields.alignment;
  options.trace = arguments.trace.has_value();
  options.search.sampling = arguments.sampling.sampling(model.generation);
  if (options.search.sampling && !arguments.decode.given.has("beam")) options.search.beam = 1;
  options.search.validate();
  return options;
}

void print(const pipelines::Line& line, const Translation& translation, int nbest,
           const TranslateArguments& arguments, LineOutput& output) {
  if (!translation.error.empty()) report_line(arguments.lines, line.number, translation.error, output);
  if (translation.truncated) {
    report_line(arguments.lines, line.number,
                concat("only the first ", translation.source_pieces.size(), " of ", translation.source_tokens,
                       " source tokens were translated"),
                output);
  }
  if (arguments.lines.json) {
    output.text << pipelines::with_line(line.number, to_json(translation, arguments.fields)) << '\n';
  } else {
    print_text(line.number, translation, nbest, arguments, output.text);
  }
}

void translate(const TranslateArguments& arguments) {
  std::vector models{pipelines::open_translation_model(arguments.lines.model, arguments.lines.load)};
  const models::TranslationModel& model = *models.front();
  const pipelines::TranslateOptions options = options_of(model, arguments);
  for (const std::string& folder : arguments.ensemble)
    models.push_back(pipelines::open_translation_model(folder, arguments.lines.load));
  const pipelines::Translator translator(models);
  std::optional<TraceFile> trace;
  if (arguments.trace) trace.emplace(*arguments.trace, *model.tokenizer);
  std::optional<Profile> profile;
  reset_allocator_peak();
  if (arguments.profile) profile.emplace();
  const auto each = [&](pipelines::LineChunk chunk, LineOutput& output) {
    return pipelines::for_each_line(
        std::move(chunk),
        [&](std::span<const std::string> texts, std::span<const int64_t> lines) {
          std::vector<pipelines::Source> sources;
          for (size_t i = 0; i < texts.size(); ++i)
            sources.push_back(pipelines::source_of_line(texts[i], lines[i], arguments.prefixes));
          return translator(sources, options, arguments.decode.engine.engine,
                            arguments.decode.engine.step_model);
        },
        [&](const pipelines::Line& line, const Translation& translation) {
          print(line, translation, options.search.nbest, arguments, output);
          if (trace) trace->add(line.number, translation);
        });
  };
  const pipelines::LineCounts counts = for_each_chunk(arguments.lines, Inputs::texts, each);
  if (trace) trace->close();
  if (profile) {
    const ProfileReport report(*profile);
    std::cerr << (arguments.lines.json ? report.json().dump() + "\n" : report.text(Style::for_stderr()));
  }
  end_lines(arguments.lines, counts);
}

}  // namespace

void add_translate(Command& app) {
  Command* command = add_command(
      app, "translate",
      "Translate texts, or stdin to stdout, line by line. The model is an encoder-decoder (marian, t5,\n"
      "bart, mbart, m2m_100 with NLLB, and what 'qkv train translation' writes). An empty line gives an\n"
      "empty line. A line that is not UTF-8 or too long gives \"error: line 3: ...\" in its place and a\n"
      "message on stderr; the others are translated, and the exit status is 1. Results depend neither on\n"
      "batches nor on threads.",
      "qkv translate model 'A man sleeps.'\n  qkv translate model < test.en > test.de\n"
      "  qkv translate nllb --source-language eng_Latn --target-language deu_Latn 'A man sleeps.'\n"
      "  mpirun -n 4 --bind-to none qkv translate model --input test.en --output test.de");
  const auto arguments = std::make_shared<TranslateArguments>();
  Option* output = add_line_options(*command, arguments->lines).output;
  add_decode_options(*command, arguments->decode);
  Option* nbest =
      add_nbest(*command, arguments->decode,
                "Translations per line, best first, equal texts once; each output line then begins\n"
                "with the line's number and a tab");
  add_option(*command, "--alternatives", arguments->alternatives, "N",
             "Show the N most likely next tokens, each with its best completion: at the first\n"
             "position, or after a prefix (default: off)")
      ->excludes(nbest);
  command->add_flag("--scores", arguments->fields.scores,
                    "Print each translation's score and a tab before it; with --json also the\n"
                    "log-probabilities of its tokens");
  command->add_flag("--alignments", arguments->fields.alignment,
                    "Print \" ||| \" and source-target pairs of token positions after each translation, by\n"
                    "cross attention; with --json as lists");
  command->add_flag("--prefixes", arguments->prefixes,
                    "The text after a tab in a line is the beginning of its translation");
  add_option(*command, "--ensemble", arguments->ensemble, "DIR",
             "Further model, whose probabilities are averaged with the first's; may be given several\n"
             "times (default: none)");
  add_sampling_options(*command, arguments->sampling);
  add_option(*command, "--trace", arguments->trace, "FILE",
             "Write the candidates of each step of the beam search, a JSON object per line (default: none)")
      ->excludes(output);
  command
      ->add_flag("--profile", arguments->profile,
                 "Print time and memory by operation on stderr at the end; with --json as one object")
      ->excludes(output);
  command->before_run([arguments] {
    for (std::string& model : arguments->ensemble) model = hub::model_folder(model);
  });
  run_on_ranks(*command, arguments->lines, [arguments] { translate(*arguments); });
}

}  // namespace qkv::apps
