#pragma once
// Drawing at random: the options that the commands share.

#include <string>

#include "apps/command.h"
#include "qkv/decode/search.h"

namespace qkv::apps {

struct SamplingArguments {
  bool sample = false;
  decode::Sampling sampling;
};

// `what` is drawn ("Draw translations at random"). `arguments` has to live as long as the command.
void add_sampling_options(CLI::App& command, SamplingArguments& arguments, const std::string& what);

}  // namespace qkv::apps
