#include "apps/sampling_options.h"

#include "qkv/pipelines/search_defaults.h"

namespace qkv::apps {

std::optional<search::Sampling> SamplingArguments::sampling(const models::GenerationDefaults& model) const {
  if (!sample && !given.any()) return std::nullopt;
  search::Sampling result = pipelines::sampling_defaults(model);
  given.apply(result);
  pipelines::require_valid({.beam = 1, .sampling = result}, model.file);
  return result;
}

void add_sampling_options(Command& command, SamplingArguments& arguments) {
  command.add_flag("--sample", arguments.sample,
                   "Sample instead of searching, as with any of the following options; --nbest is the\n"
                   "number of samples");
  add_field_options<search::Sampling>(command, arguments.given, {""}, kModels);
  add_field_options<search::Sampling>(command, arguments.given, {search::Sampling::kSeed});
}

}  // namespace qkv::apps
