#pragma once
// Drawing at random: the options that the commands share.

#include <optional>
#include <string>

#include "apps/command.h"
#include "qkv/search/search.h"

namespace qkv::apps {

struct SamplingArguments {
  bool sample = false;
  std::optional<double> temperature, top_p, min_p;
  std::optional<int> top_k;
  uint64_t seed = search::Sampling().seed;

  // What is not given is as the model's folder says.
  std::optional<search::Sampling> sampling(const models::GenerationDefaults& model) const;
};

// `what` is drawn ("Draw translations at random"). `arguments` has to live as long as the command.
void add_sampling_options(CLI::App& command, SamplingArguments& arguments, const std::string& what);

}  // namespace qkv::apps
