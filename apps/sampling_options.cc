#include "apps/sampling_options.h"

namespace qkv::apps {

std::optional<search::Sampling> SamplingArguments::sampling(const models::GenerationDefaults& model) const {
  if (!sample) return std::nullopt;
  return search::Sampling{.temperature = temperature.value_or(model.temperature),
                          .top_k = top_k.value_or(model.top_k),
                          .top_p = top_p.value_or(model.top_p),
                          .min_p = min_p.value_or(model.min_p),
                          .seed = seed};
}

void add_sampling_options(CLI::App& command, SamplingArguments& arguments, const std::string& what) {
  CLI::Option* sample = command.add_flag("--sample", arguments.sample, what);
  command
      .add_option("--temperature", arguments.temperature,
                  "Logits are divided by it (default for this and the next three: the model's)")
      ->needs(sample);
  command.add_option("--top-k", arguments.top_k, "Draw from the so many likeliest tokens; 0: all")
      ->needs(sample);
  command
      .add_option("--top-p", arguments.top_p,
                  "Draw from the likeliest tokens that together have this probability")
      ->needs(sample);
  command
      .add_option("--min-p", arguments.min_p,
                  "Draw from tokens with at least this share of the likeliest one's probability")
      ->needs(sample);
  command
      .add_option("--seed", arguments.seed,
                  "The same seed draws the same text for a line, whatever the other lines are")
      ->capture_default_str()
      ->needs(sample);
}

}  // namespace qkv::apps
