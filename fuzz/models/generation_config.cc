// Reads a generation_config.json.

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/models/hub/generation_defaults.h"

namespace qkv::fuzz {
namespace {

void read(std::string_view bytes) {
  static const std::filesystem::path folder = scratch_folder("generation_config");
  write(folder / "generation_config.json", bytes);
  const models::GenerationDefaults defaults = models::load_generation_defaults(folder);
  models::generation_json({}, defaults);
}

std::vector<std::string> seeds() {
  return golden_files({"apps/golden/hub", "pipelines/golden"}, "generation_config.json");
}

}  // namespace

const Reader generation_config{"generation_config", read, seeds};

}  // namespace qkv::fuzz
