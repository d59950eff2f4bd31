#include "apps/sampling_options.h"

#include "qkv/pipelines/search_defaults.h"

namespace qkv::apps {

std::optional<search::Sampling> SamplingArguments::sampling(const models::GenerationDefaults& model) const {
  if (!sample) return std::nullopt;
  search::Sampling result = pipelines::sampling_defaults(model);
  result.temperature = temperature.value_or(result.temperature);
  result.top_k = top_k.value_or(result.top_k);
  result.top_p = top_p.value_or(result.top_p);
  result.min_p = min_p.value_or(result.min_p);
  result.seed = seed;
  return result;
}

void add_sampling_options(CLI::App& command, SamplingArguments& arguments) {
  CLI::Option* sample = command.add_flag("--sample", arguments.sample,
                                         "Sample in place of searching; --nbest is the number of samples");
  command
      .add_option("--temperature", arguments.temperature,
                  "Divisor of the logits, above 0 (default: the model's)")
      ->type_name("FACTOR")
      ->needs(sample);
  command
      .add_option("--top-k", arguments.top_k,
                  "Sample from the K most likely tokens; 0: from all (default: the model's)")
      ->type_name("K")
      ->needs(sample);
  command
      .add_option("--top-p", arguments.top_p,
                  "Sample from the most likely tokens with this total probability, above 0 to 1 (default:\n"
                  "the model's)")
      ->type_name("P")
      ->needs(sample);
  command
      .add_option("--min-p", arguments.min_p,
                  "Sample from tokens with at least this fraction of the highest probability, 0 to 1\n"
                  "(default: the model's)")
      ->type_name("P")
      ->needs(sample);
  command
      .add_option("--seed", arguments.seed,
                  "Random seed; a line's samples depend on it and on the line's number alone")
      ->type_name("N")
      ->capture_default_str()
      ->needs(sample);
}

}  // namespace qkv::apps
