#pragma once
// Which files of a model are downloaded.

#include <string>
#include <string_view>
#include <vector>

#include "qkv/hub/listing.h"

namespace qkv::hub {

// A pattern of the shell, in which '*' matches '/' too, as in huggingface_hub; "folder/" is all below it.
bool matches(std::string_view path, const std::string& pattern);

// Whether qkv opens files of this name: configurations, tokenizers, chat templates and weights, in the
// model's folder and in those of sentence-transformers' modules (1_Pooling).
bool is_useful(std::string_view path);

struct Choice {
  std::vector<HubFile> taken;
  std::vector<HubFile> skipped;
};

// The files that match one of `include`, or without any the useful ones, of weights those in safetensors if a
// folder has both; but none that matches one of `exclude`.
Choice choose(const std::vector<HubFile>& files, const std::vector<std::string>& include,
              const std::vector<std::string>& exclude);

}  // namespace qkv::hub
