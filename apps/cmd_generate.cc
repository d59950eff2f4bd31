#include <iostream>
#include <memory>
#include <optional>

#include "apps/line_results.h"
#include "apps/sampling_options.h"
#include "qkv/base/error.h"
#include "qkv/pipelines/generate.h"

namespace qkv::apps {
namespace {

struct Arguments {
  LineArguments lines;
  SamplingArguments sampling;
  pipelines::GenerateOptions options;
  std::optional<int> no_repeat_ngram;
  std::optional<float> repetition_penalty;
  std::optional<std::string> prompt;
};

pipelines::GenerateOptions options_of(const Arguments& arguments) {
  const models::GenerationDefaults model = models::load_generation_defaults(arguments.lines.model);
  pipelines::GenerateOptions options = arguments.options;
  options.search.sampling = arguments.sampling.sampling(model);
  options.search.no_repeat_ngram = arguments.no_repeat_ngram.value_or(model.no_repeat_ngram);
  options.search.repetition_penalty = arguments.repetition_penalty.value_or(model.repetition_penalty);
  options.search.validate();
  return options;
}

// The prompt and its continuation, once for each completion.
std::string text_of(const pipelines::Generated& generated, const pipelines::Line& prompt) {
  std::string text;
  for (const pipelines::Completion& one : generated.completions) {
    if (&one != &generated.completions.front()) text += '\n';
    text += prompt.text + one.text;
  }
  return text;
}

// One prompt, whose continuation is seen while it is written.
void stream(const pipelines::TextGenerator& writer, const Arguments& arguments,
            const pipelines::GenerateOptions& options) {
  pipelines::Prompt prompt{.text = *arguments.prompt, .key = 1};
  const bool streams = !arguments.lines.json && options.search.nbest == 1 && options.search.beam == 1;
  if (streams) {
    std::cout << prompt.text << std::flush;
    prompt.on_text = [](std::string_view text) { std::cout << text << std::flush; };
  }
  const pipelines::Generated generated = writer.generate(std::span(&prompt, 1), options).front();
  if (!generated.error.empty()) throw DataError(concat("--prompt: ", generated.error));
  if (streams) {
    std::cout << '\n';
  } else if (arguments.lines.json) {
    std::cout << to_json(generated) << '\n';
  } else {
    for (const pipelines::Completion& one : generated.completions)
      std::cout << prompt.text << one.text << '\n';
  }
}

void generate(const Arguments& arguments) {
  const pipelines::GenerateOptions options = options_of(arguments);
  const pipelines::TextGenerator writer(arguments.lines.model, arguments.lines.load);
  if (arguments.prompt) return stream(writer, arguments, options);
  print_results(
      arguments.lines,
      [&](std::span<const std::string> texts, std::span<const int64_t> lines) {
        std::vector<pipelines::Prompt> prompts;
        for (size_t i = 0; i < texts.size(); ++i) {
          prompts.push_back({.text = texts[i], .key = static_cast<uint64_t>(lines[i])});
        }
        return writer.generate(prompts, options);
      },
      text_of, [](const pipelines::Generated& generated) { return to_json(generated); });
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* command =
      add_command(app, "generate",
                  "Continue a prompt, or each line of stdin, with a language model (gpt2, llama).\n"
                  "Greedy unless --sample or --beam says otherwise. A prompt is printed as it grows.",
                  "qkv generate gpt2 --prompt 'Once upon a time' --sample --top-p 0.9 --max-new-tokens 100");
  const auto arguments = std::make_shared<Arguments>();
  add_line_options(*command, arguments->lines);
  command->add_option("--prompt", arguments->prompt, "The text to continue (default: the lines of stdin)")
      ->type_name("TEXT");
  search::SearchOptions& search = arguments->options.search;
  command
      ->add_option("--max-new-tokens", search.max_new_tokens, "Most tokens to generate, the end not counted")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--min-new-tokens", search.min_new_tokens,
                   "Fewest tokens to generate, the end not counted")
      ->capture_default_str();
  command->add_option("--beam", search.beam, "Texts kept at each step; 1 is greedy")->capture_default_str();
  command->add_option("--nbest", search.nbest, "Texts for each prompt")->capture_default_str();
  command
      ->add_option("--length-penalty", search.length_penalty, "How much a beam search favours longer texts")
      ->capture_default_str();
  command->add_option("--no-repeat-ngram", arguments->no_repeat_ngram,
                      "Never repeat an n-gram of this size, those of the prompt included\n"
                      "(0: off; default: the model's)");
  command->add_option("--repetition-penalty", arguments->repetition_penalty,
                      "Above 1: tokens that have come already become less likely (default: the model's)");
  command
      ->add_option("--batch-tokens", arguments->options.batch_tokens,
                   "Prompt tokens worked on side by side: memory against speed")
      ->capture_default_str();
  add_sampling_options(*command, arguments->sampling, "Draw the text at random (--nbest: how many)");
  command->callback([arguments] { generate(*arguments); });
}

}  // namespace qkv::apps
