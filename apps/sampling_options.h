#pragma once
// The sampling options that translate and generate share.

#include <optional>
#include <string>

#include "apps/command.h"
#include "qkv/models/hub/generation_defaults.h"
#include "qkv/search/search.h"

namespace qkv::apps {

struct SamplingArguments {
  bool sample = false;
  std::optional<double> temperature, top_p, min_p;
  std::optional<int> top_k;
  uint64_t seed = search::Sampling().seed;

  // What is not given is as in the model's folder.
  std::optional<search::Sampling> sampling(const models::GenerationDefaults& model) const;
};

// `arguments` has to live as long as the command.
void add_sampling_options(CLI::App& command, SamplingArguments& arguments);

}  // namespace qkv::apps
