#pragma once
// Sampling options common to translate and generate.

#include <optional>

#include "apps/cli/field_options.h"
#include "qkv/search/search.h"

namespace qkv::apps {

struct SamplingArguments {
  bool sample = false;  // or any of these
  GivenFields given;

  // Nothing without a sampling option. Unset options default to the model folder's.
  std::optional<search::Sampling> sampling(const models::GenerationDefaults& model) const;
};

// `arguments` must live as long as the command.
void add_sampling_options(Command& command, SamplingArguments& arguments);

}  // namespace qkv::apps
