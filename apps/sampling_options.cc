#include "apps/sampling_options.h"

namespace qkv::apps {

void add_sampling_options(CLI::App& command, SamplingArguments& arguments, const std::string& what) {
  decode::Sampling& sampling = arguments.sampling;
  CLI::Option* sample = command.add_flag("--sample", arguments.sample, what);
  command.add_option("--temperature", sampling.temperature, "Logits are divided by it")
      ->capture_default_str()
      ->needs(sample);
  command.add_option("--top-k", sampling.top_k, "Draw from the so many likeliest tokens; 0: all")
      ->capture_default_str()
      ->needs(sample);
  command
      .add_option("--top-p", sampling.top_p,
                  "Draw from the likeliest tokens that together have this probability")
      ->capture_default_str()
      ->needs(sample);
  command
      .add_option("--min-p", sampling.min_p,
                  "Draw from tokens with at least this share of the likeliest one's probability")
      ->capture_default_str()
      ->needs(sample);
  command
      .add_option("--seed", sampling.seed,
                  "The same seed draws the same text for a line, whatever the other lines are")
      ->capture_default_str()
      ->needs(sample);
}

}  // namespace qkv::apps
