#pragma once
// Sampling options common to translate and generate.

#include <optional>
#include <string>

#include "apps/command.h"
#include "qkv/models/hub/generation_defaults.h"
#include "qkv/search/search.h"

namespace qkv::apps {

struct SamplingArguments {
  bool sample = false;  // or any of these
  std::optional<double> temperature, top_p, min_p;
  std::optional<int> top_k;
  std::optional<uint64_t> seed;

  // Nothing without a sampling option. Unset options default to the model folder's.
  std::optional<search::Sampling> sampling(const models::GenerationDefaults& model) const;
};

// `arguments` must live as long as the command.
void add_sampling_options(Command& command, SamplingArguments& arguments);

}  // namespace qkv::apps
