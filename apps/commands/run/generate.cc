// qkv generate

#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "apps/engine_options.h"
#include "apps/line_results.h"
#include "apps/sampling_options.h"
#include "qkv/base/error.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/search_defaults.h"

namespace qkv::apps {
namespace {

struct GenerateArguments {
  LineArguments lines;
  SamplingArguments sampling;
  pipelines::GenerateOptions options;
  EngineArguments engine;
  std::vector<std::string> bad_words;
  std::optional<int> no_repeat_ngram;
  std::optional<float> repetition_penalty;
};

pipelines::GenerateOptions options_of(const pipelines::TextGenerator& generator,
                                      const GenerateArguments& arguments) {
  const search::SearchOptions defaults = generator.default_options().search;
  pipelines::GenerateOptions options = arguments.options;
  options.search.sampling = arguments.sampling.sampling(generator.model().generation);
  options.search.no_repeat_ngram = arguments.no_repeat_ngram.value_or(defaults.no_repeat_ngram);
  options.search.repetition_penalty = arguments.repetition_penalty.value_or(defaults.repetition_penalty);
  try {
    options.search.bad_words = pipelines::bad_words(generator.model().tokenizer, arguments.bad_words);
  } catch (const UsageError& error) {
    throw UsageError(concat("--forbid: ", error.what()));
  }
  options.search.validate();
  return options;
}

// The prompt and its continuation, for each completion.
std::string generated_text(const pipelines::Generated& generated, const std::string& prompt) {
  std::string text;
  for (const pipelines::Completion& one : generated.completions) {
    if (&one != &generated.completions.front()) text += '\n';
    text += prompt + one.text;
  }
  return text;
}

// A truncated completion has as many tokens as requested, or as the model has positions for.
void report_positions(const pipelines::Generated& generated, const GenerateArguments& arguments,
                      int64_t line) {
  const int expected = arguments.options.search.max_new_tokens;
  for (const pipelines::Completion& one : generated.completions) {
    const int64_t tokens = std::ssize(one.hypothesis.ids);
    if (one.hypothesis.complete || tokens >= expected) continue;
    report_line(
        arguments.lines, line,
        concat("stopped after ", tokens, " of ", expected, " tokens, at the end of the model's positions"));
    return;
  }
}

void generate(const GenerateArguments& arguments) {
  const pipelines::TextGenerator generator(arguments.lines.model, arguments.lines.load);
  const pipelines::GenerateOptions options = options_of(generator, arguments);
  const bool streams = arguments.lines.texts.size() == 1 && !arguments.lines.json &&
                       options.search.nbest == 1 && options.search.beam == 1;
  bool shown = false;  // whether a streamed completion has begun; a prompt with an error has none
  print_results(
      arguments.lines, Inputs::texts,
      [&](std::span<const std::string> texts, std::span<const int64_t> lines) {
        std::vector<pipelines::Prompt> prompts;
        for (size_t i = 0; i < texts.size(); ++i)
          prompts.push_back({.text = texts[i], .key = static_cast<uint64_t>(lines[i])});
        if (streams) {
          prompts.front().on_text = [&](std::string_view text) {
            if (!std::exchange(shown, true)) std::cout << texts.front();
            std::cout << text << std::flush;
          };
        }
        return generator(prompts, options, arguments.engine.engine, arguments.engine.step_model);
      },
      [&](const pipelines::Generated& generated, const pipelines::Line& line) {
        return shown ? "" : generated_text(generated, line.text);
      },
      [](const pipelines::Generated& generated) { return to_json(generated); },
      [&](const pipelines::Generated& generated, const pipelines::Line& line) {
        report_positions(generated, arguments, line.number);
      });
}

}  // namespace

void add_generate(Command& app) {
  Command* command = add_command(
      app, "generate",
      "Continue texts, or each line of stdin, with a language model (gpt2, llama, mistral): by greedy\n"
      "search (default), beam search or sampling. The completion of a single text is streamed.",
      "qkv generate gpt2 'Once upon a time' --top-p 0.9 --max-new-tokens 100");
  const auto arguments = std::make_shared<GenerateArguments>();
  Option* texts = add_line_options(*command, arguments->lines);
  add_option(*command, "--prompt", arguments->lines.texts, "TEXT",
             "Another way to give a text; may be given several times (default: none)")
      ->excludes(texts);
  search::SearchOptions& search = arguments->options.search;
  add_option(*command, "--max-new-tokens", search.max_new_tokens, "TOKENS",
             "Maximum length of a completion, its end token not counted")
      ->check(at_least(1));
  add_option(*command, "--min-new-tokens", search.min_new_tokens, "TOKENS",
             "Minimum length of a completion, its end token not counted");
  add_option(*command, "--beam", search.beam, "N", "Hypotheses kept at each step; 1: greedy search");
  add_option(*command, "--nbest", search.nbest, "N", "Completions per prompt, best first");
  add_option(*command, "--length-penalty", search.length_penalty, "ALPHA",
             "Length penalty of a beam search: larger values favour longer completions");
  add_option(*command, "--no-repeat-ngram", arguments->no_repeat_ngram, "TOKENS",
             "Never repeat an n-gram of this size, including those of the prompt; 0: off (default: the\n"
             "model's)");
  add_option(*command, "--repetition-penalty", arguments->repetition_penalty, "FACTOR",
             "Above 1: repeated tokens become less likely; 1: off (default: the model's)");
  add_option(*command, "--forbid", arguments->bad_words, "TEXT",
             "Words that no completion may contain; may be given several times (default: none)");
  add_engine_options(*command, arguments->engine);
  add_prompt_options(*command, arguments->engine);
  add_sampling_options(*command, arguments->sampling);
  command->callback([arguments] { generate(*arguments); });
}

}  // namespace qkv::apps
