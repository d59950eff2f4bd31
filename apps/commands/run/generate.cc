// qkv generate

#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "apps/cli/messages.h"
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
  std::optional<std::string> prompt;
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

// Reports, before the prompt is continued, that the model has fewer positions than requested tokens.
void report_positions(const pipelines::TextGenerator& generator, const pipelines::Prompt& prompt,
                      const pipelines::GenerateOptions& options, const std::string& where) {
  const pipelines::GenerationRequest request = generator.prepare({.text = prompt.text}, options);
  const int tokens = request.decode.options.max_new_tokens;
  if (request.done() || tokens >= options.search.max_new_tokens) return;
  say(concat(where, ": at most ", tokens, " of ", options.search.max_new_tokens,
             " new tokens: the model has ", generator.model().model->config().max_positions,
             " positions, and the prompt takes ", request.generated.prompt_tokens));
}

// Streams the completion of one prompt.
void continue_prompt(const pipelines::TextGenerator& generator, const GenerateArguments& arguments,
                     const pipelines::GenerateOptions& options) {
  pipelines::Prompt prompt{.text = *arguments.prompt, .key = 1};
  const bool streams = !arguments.lines.json && options.search.nbest == 1 && options.search.beam == 1;
  bool shown = false;  // whether output has begun; a prompt with an error has none
  if (streams) {
    prompt.on_text = [&](std::string_view text) {
      if (!std::exchange(shown, true)) std::cout << prompt.text;
      std::cout << text << std::flush;
    };
  }
  report_positions(generator, prompt, options, "--prompt");
  const pipelines::Generated generated =
      generator(std::span(&prompt, 1), options, arguments.engine.engine, arguments.engine.step_model).front();
  if (!generated.error.empty()) throw DataError(concat("--prompt: ", generated.error));
  if (!shown)
    std::cout << (arguments.lines.json ? to_json(generated) : generated_text(generated, prompt.text));
  std::cout << '\n';
}

void generate(const GenerateArguments& arguments) {
  const pipelines::TextGenerator generator(arguments.lines.model, arguments.lines.load);
  const pipelines::GenerateOptions options = options_of(generator, arguments);
  if (arguments.prompt) return continue_prompt(generator, arguments, options);
  print_results(
      arguments.lines,
      [&](std::span<const std::string> texts, std::span<const int64_t> lines) {
        std::vector<pipelines::Prompt> prompts;
        for (size_t i = 0; i < texts.size(); ++i) {
          prompts.push_back({.text = texts[i], .key = static_cast<uint64_t>(lines[i])});
          report_positions(generator, prompts.back(), options, concat("line ", lines[i]));
        }
        return generator(prompts, options, arguments.engine.engine, arguments.engine.step_model);
      },
      [](const pipelines::Generated& generated, const pipelines::Line& line) {
        return generated_text(generated, line.text);
      },
      [](const pipelines::Generated& generated) { return to_json(generated); });
}

}  // namespace

void add_generate(Command& app) {
  Command* command = add_command(
      app, "generate",
      "Continue a prompt, or each line of stdin, with a language model (gpt2, llama, mistral): by\n"
      "greedy search (default), beam search or sampling. The completion of a single prompt is streamed.",
      "qkv generate gpt2 --prompt 'Once upon a time' --sample --top-p 0.9 --max-new-tokens 100");
  const auto arguments = std::make_shared<GenerateArguments>();
  add_line_options(*command, arguments->lines);
  add_option(*command, "--prompt", arguments->prompt, "TEXT",
             "Text to continue (default: each line of stdin)");
  search::SearchOptions& search = arguments->options.search;
  add_option(*command, "--max-new-tokens", search.max_new_tokens, "TOKENS",
             "Maximum length of a completion, its end token not counted")
      ->check(at_least(1));
  add_option(*command, "--min-new-tokens", search.min_new_tokens, "TOKENS",
             "Minimum length of a completion, its end token not counted");
  add_option(*command, "--beam", search.beam, "N", "Hypotheses kept at each step; 1: greedy search");
  add_option(*command, "--nbest", search.nbest, "N", "Completions per prompt, best first; equal texts once");
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
