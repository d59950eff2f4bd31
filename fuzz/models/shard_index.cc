// Reads a model.safetensors.index.json with one shard.

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/hub/tensor_files.h"

namespace qkv::fuzz {
namespace {

// With a shard that the golden index names.
std::filesystem::path make_folder() {
  const std::filesystem::path folder = scratch_folder("shard_index");
  io::write_safetensors(folder / "model-00001-of-00002.safetensors",
                        {{"model.norm.weight", Tensor::from(std::vector{0.5f, 1.5f}, {2})}});
  return folder;
}

void read(std::string_view bytes) {
  static const std::filesystem::path folder = make_folder();
  write(folder / "model.safetensors.index.json", bytes);
  const models::TensorFiles files(folder, MapFor::reading);
  for (const std::string& name : files.names()) files.file_of(name, {2}).as_stored(name, {2});
}

std::vector<std::string> seeds() {
  return {R"({"metadata": {"total_size": 8}, "weight_map":
             {"model.norm.weight": "model-00001-of-00002.safetensors"}})",
          joined_files(golden("models/golden/llama_grouped+shards"), {"model.safetensors.index.json"})};
}

}  // namespace

const Reader shard_index{"shard_index", read, seeds};

}  // namespace qkv::fuzz
