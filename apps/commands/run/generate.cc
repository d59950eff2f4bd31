// qkv generate

#include <algorithm>
#include <iostream>
#include <memory>
#include <utility>

#include "apps/decode_options.h"
#include "apps/line_results.h"
#include "apps/sampling_options.h"
#include "qkv/data/image.h"
#include "qkv/pipelines/generate.h"

namespace qkv::apps {
namespace {

struct GenerateArguments {
  LineArguments lines;
  std::vector<std::string> images;
  SearchArguments search;
  SamplingArguments sampling;
  std::string json_schema;
};

pipelines::GenerateOptions options_of(const pipelines::TextGenerator& generator,
                                      const GenerateArguments& arguments) {
  pipelines::GenerateOptions options = generator.default_options();
  search::SearchOptions& search = options.search;
  search.sampling = arguments.sampling.sampling(generator.model().generation);
  if (search.sampling) search.beam = 1;
  arguments.search.apply(search, generator.model().tokenizer);
  if (arguments.search.given.has("max_new_tokens")) options.max_length = 0;
  if (arguments.search.given.has("min_new_tokens")) options.min_length = 0;
  search.validate();
  options.json_schema = json_schema_of(arguments.json_schema, generator.model());
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

// Reports, before a text is continued, that the model has fewer positions than requested tokens.
void report_positions(const pipelines::TextGenerator& generator, const pipelines::GenerateOptions& options,
                      const GenerateArguments& arguments, const pipelines::Prompt& prompt, int64_t line,
                      const LineOutput& output) {
  const pipelines::GenerationRequest request = generator.prepare(prompt, options);
  if (request.done()) return;
  const int64_t tokens = request.decode.options.max_new_tokens;
  const int64_t wanted = options.max_new_tokens(request.generated.prompt_tokens);
  if (tokens + (options.search.forced_eos ? 1 : 0) >= wanted) return;
  report_line(arguments.lines, line,
              concat("at most ", tokens, " of ", wanted, " new tokens: the model has ",
                     generator.model().model->config().max_positions, " positions, and the prompt takes ",
                     request.generated.prompt_tokens),
              output);
}

void generate(const GenerateArguments& arguments) {
  const pipelines::TextGenerator generator(arguments.lines.model, arguments.lines.load);
  const pipelines::GenerateOptions options = options_of(generator, arguments);
  std::vector<pipelines::EncodedImageHandle> images;
  for (const std::string& file : arguments.images)
    images.push_back(generator.image(data::read_image_file(file), file));
  const bool streams = arguments.lines.texts.size() == 1 && !arguments.lines.json &&
                       options.search.nbest == 1 && options.search.beam == 1;
  bool shown = false;  // whether a streamed completion has begun; a prompt with an error has none
  print_results(
      arguments.lines, Inputs::texts,
      [&](std::span<const std::string> texts, std::span<const int64_t> lines, const LineOutput& output) {
        std::vector<pipelines::Prompt> prompts;
        for (size_t i = 0; i < texts.size(); ++i) {
          prompts.push_back({.text = texts[i], .images = images, .key = static_cast<uint64_t>(lines[i])});
          if (arguments.search.given.has("max_new_tokens"))
            report_positions(generator, options, arguments, prompts.back(), lines[i], output);
        }
        if (streams) {
          prompts.front().on_text = [&](std::string_view text) {
            if (!std::exchange(shown, true)) std::cout << texts.front();
            std::cout << text << std::flush;
          };
        }
        return generator(prompts, options, arguments.search.engine.engine,
                         arguments.search.engine.step_model);
      },
      [&](const pipelines::Generated& generated, const pipelines::Line& line) {
        return shown ? "" : generated_text(generated, line.text);
      },
      [](const pipelines::Generated& generated) { return to_json(generated); });
}

}  // namespace

void add_generate(Command& app) {
  Command* command = add_command(
      app, "generate",
      "Continue texts, or each line of stdin, with a language model (gpt2, llama, ...): by greedy\n"
      "search (default), beam search or sampling. The completion of a single text is streamed.",
      "qkv generate gpt2 'Once upon a time' --top-p 0.9 --max-new-tokens 100");
  const auto arguments = std::make_shared<GenerateArguments>();
  const LineOptionsAdded lines =
      add_line_options(*command, arguments->lines, "Texts", ModelPath::folder_or_gguf);
  add_option(*command, "--prompt", arguments->lines.texts, "TEXT",
             "Another way to give a text; may be given several times (default: none)")
      ->excludes(lines.texts)
      ->excludes(lines.input);
  add_option(
      *command, "--image", arguments->images, "FILE",
      "PNG or JPEG file in the place of <image>, or what the model has for it, in each text; may be given\n"
      "several times (default: none)");
  add_search_options(*command, arguments->search);
  add_nbest(*command, arguments->search, "Completions per prompt, best first; equal texts once");
  add_prompt_options(*command, arguments->search.engine);
  add_sampling_options(*command, arguments->sampling);
  add_json_schema_option(*command, arguments->json_schema);
  run_on_ranks(*command, arguments->lines, [arguments] { generate(*arguments); });
}

}  // namespace qkv::apps
