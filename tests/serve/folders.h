#pragma once
// Small model folders, made by transformers (tests/golden/).

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/serve/service.h"
#include "tests/support/scratch.h"

namespace qkv::testing {

inline std::filesystem::path golden_folder(const std::string& name) {
  const std::filesystem::path tests = QKV_TEST_DATA;
  return name == "marian" ? tests / "pipelines/golden/marian" : tests / "models/golden" / name;
}

// A service of these folders, each under its own name.
inline serve::ServiceOptions serving(const std::vector<std::string>& names) {
  serve::ServiceOptions options;
  for (const std::string& name : names) options.folders.push_back({name, golden_folder(name)});
  return options;
}

// A language model that reads 4,000 tokens: its positions are rotary, so that only the configuration differs.
inline serve::ServiceOptions serving_long_texts(const Scratch& scratch) {
  std::filesystem::copy(golden_folder("llama"), scratch / "long");
  nlohmann::json config = nlohmann::json::parse(read_file(scratch / "long/config.json"));
  config["max_position_embeddings"] = 4000;
  scratch.write("long/config.json", config.dump());
  serve::ServiceOptions options;
  options.folders = {{"long", scratch / "long"}};
  return options;
}

}  // namespace qkv::testing
