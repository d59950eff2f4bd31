#include "apps/sampling_options.h"

#include "qkv/pipelines/search_defaults.h"

namespace qkv::apps {

std::optional<search::Sampling> SamplingArguments::sampling(const models::GenerationDefaults& model) const {
  if (!sample && !temperature && !top_k && !top_p && !min_p && !seed) return std::nullopt;
  search::Sampling result = pipelines::sampling_defaults(model);
  const search::Sampling usual;  // in place of values that are not used
  pipelines::require_valid(
      {.beam = 1,
       .sampling = search::Sampling{.temperature = temperature ? usual.temperature : result.temperature,
                                    .top_k = result.top_k,
                                    .top_p = top_p ? usual.top_p : result.top_p,
                                    .min_p = min_p ? usual.min_p : result.min_p}});
  result.temperature = temperature.value_or(result.temperature);
  result.top_k = top_k.value_or(result.top_k);
  result.top_p = top_p.value_or(result.top_p);
  result.min_p = min_p.value_or(result.min_p);
  result.seed = seed.value_or(result.seed);
  return result;
}

void add_sampling_options(Command& command, SamplingArguments& arguments) {
  command.add_flag("--sample", arguments.sample,
                   "Sample instead of searching, as with any of the following options; --nbest is the\n"
                   "number of samples");
  const auto add = [&](const char* name, auto& value, const char* type, const char* help) {
    add_option(command, name, value, type, help);
  };
  add("--temperature", arguments.temperature, "FACTOR",
      "Divisor of the logits, above 0 (default: the model's)");
  add("--top-k", arguments.top_k, "K",
      "Sample from the K most likely tokens; 0: from all (default: the model's)");
  add("--top-p", arguments.top_p, "P",
      "Sample from the most likely tokens with this total probability, above 0 to 1 (default: the\n"
      "model's)");
  add("--min-p", arguments.min_p, "P",
      "Sample from tokens with at least this fraction of the highest probability, 0 to 1 (default: the\n"
      "model's)");
  add("--seed", arguments.seed, "N",
      "Random seed, 0 or more; a line's samples depend on it and on the line's number alone (default: 1)");
}

}  // namespace qkv::apps
