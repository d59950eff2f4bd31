// Reads a model.safetensors.index.json with one shard.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/hub/tensor_files.h"

namespace {

// A folder with a shard named in the golden index.
const std::filesystem::path& folder() {
  static const std::filesystem::path path = [] {
    const auto made = std::filesystem::temp_directory_path() / ("fuzz-shards-" + std::to_string(::getpid()));
    std::filesystem::create_directories(made);
    const qkv::Tensor numbers = qkv::Tensor::from(std::vector{0.5f, 1.5f}, {2});
    qkv::io::write_safetensors(made / "model-00001-of-00002.safetensors", {{"model.norm.weight", numbers}});
    return made;
  }();
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::ofstream(folder() / "model.safetensors.index.json", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    const qkv::models::TensorFiles files(folder(), qkv::MapFor::reading);
    for (const std::string& name : files.names()) files.file_of(name, {2}).as_stored(name, {2});
  } catch (const qkv::Error&) {
    // Rejected, as expected.
  }
  return 0;
}
