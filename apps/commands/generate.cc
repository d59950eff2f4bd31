// qkv generate

#include <iostream>
#include <memory>
#include <optional>

#include "apps/line_results.h"
#include "apps/sampling_options.h"
#include "qkv/base/error.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/search_defaults.h"

namespace qkv::apps {
namespace {

struct Arguments {
  LineArguments lines;
  SamplingArguments sampling;
  pipelines::GenerateOptions options;
  search::EngineOptions engine;
  std::vector<std::string> bad_words;
  std::optional<int> no_repeat_ngram;
  std::optional<float> repetition_penalty;
  std::optional<std::string> prompt;
};

pipelines::GenerateOptions options_of(const pipelines::TextGenerator& generator, const Arguments& arguments) {
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

// The prompt and its continuation, once for each completion.
std::string text_of(const pipelines::Generated& generated, const std::string& prompt) {
  std::string text;
  for (const pipelines::Completion& one : generated.completions) {
    if (&one != &generated.completions.front()) text += '\n';
    text += prompt + one.text;
  }
  return text;
}

// One prompt, whose completion is shown while it is generated.
void continue_prompt(const pipelines::TextGenerator& generator, const Arguments& arguments,
                     const pipelines::GenerateOptions& options) {
  pipelines::Prompt prompt{.text = *arguments.prompt, .key = 1};
  const bool streams = !arguments.lines.json && options.search.nbest == 1 && options.search.beam == 1;
  if (streams) {
    std::cout << prompt.text << std::flush;
    prompt.on_text = [](std::string_view text) { std::cout << text << std::flush; };
  }
  const pipelines::Generated generated = generator(std::span(&prompt, 1), options, arguments.engine).front();
  if (!generated.error.empty()) throw DataError(concat("--prompt: ", generated.error));
  if (!streams) std::cout << (arguments.lines.json ? to_json(generated) : text_of(generated, prompt.text));
  std::cout << '\n';
}

void generate(const Arguments& arguments) {
  const pipelines::TextGenerator generator(arguments.lines.model, arguments.lines.load);
  const pipelines::GenerateOptions options = options_of(generator, arguments);
  if (arguments.prompt) return continue_prompt(generator, arguments, options);
  print_results(
      arguments.lines,
      [&](std::span<const std::string> texts, std::span<const int64_t> lines) {
        std::vector<pipelines::Prompt> prompts;
        for (size_t i = 0; i < texts.size(); ++i)
          prompts.push_back({.text = texts[i], .key = static_cast<uint64_t>(lines[i])});
        return generator(prompts, options, arguments.engine);
      },
      [](const pipelines::Generated& generated, const pipelines::Line& line) {
        return text_of(generated, line.text);
      },
      [](const pipelines::Generated& generated) { return to_json(generated); });
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* command = add_command(
      app, "generate",
      "Continue a prompt, or each line of stdin, with a language model (gpt2, llama): by greedy search,\n"
      "or as --beam and --sample say. The completion of a single prompt is printed as it grows.",
      "qkv generate gpt2 --prompt 'Once upon a time' --sample --top-p 0.9 --max-new-tokens 100");
  const auto arguments = std::make_shared<Arguments>();
  add_line_options(*command, arguments->lines);
  command->add_option("--prompt", arguments->prompt, "Text to continue (default: each line of stdin)")
      ->type_name("TEXT");
  search::SearchOptions& search = arguments->options.search;
  command
      ->add_option("--max-new-tokens", search.max_new_tokens,
                   "Maximum length of a completion, its end not counted")
      ->check(CLI::PositiveNumber)
      ->type_name("TOKENS")
      ->capture_default_str();
  command
      ->add_option("--min-new-tokens", search.min_new_tokens,
                   "Minimum length of a completion, its end not counted")
      ->type_name("TOKENS")
      ->capture_default_str();
  command->add_option("--beam", search.beam, "Hypotheses kept at each step; 1 is greedy search")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--nbest", search.nbest, "Completions per prompt, best first")
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--length-penalty", search.length_penalty,
                   "Length penalty of a beam search: larger values favour longer completions")
      ->type_name("ALPHA")
      ->capture_default_str();
  command
      ->add_option("--no-repeat-ngram", arguments->no_repeat_ngram,
                   "Never repeat an n-gram of this size, those of the prompt included; 0: off (default: the\n"
                   "model's)")
      ->type_name("TOKENS");
  command
      ->add_option("--repetition-penalty", arguments->repetition_penalty,
                   "Above 1: repeated tokens become less likely (default: the model's)")
      ->type_name("FACTOR");
  command
      ->add_option("--forbid", arguments->bad_words,
                   "Words that no completion may contain; may be given several times")
      ->type_name("TEXT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--batch-tokens", arguments->engine.batch_tokens,
                   "Prompt tokens worked on side by side: memory against speed, never the results")
      ->type_name("TOKENS")
      ->capture_default_str();
  add_sampling_options(*command, arguments->sampling);
  command->callback([arguments] { generate(*arguments); });
}

}  // namespace qkv::apps
