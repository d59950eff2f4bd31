#pragma once
// Comparing stored weights, and damaging model folders.

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"

namespace qkv::testing {

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.address(), b.address(), a.bytes()) == 0;
}

inline void set_config_field(const std::filesystem::path& folder, const std::string& key,
                             const std::string& value) {
  auto config = nlohmann::json::parse(read_file(folder / "config.json"));
  config[key] = value;
  std::ofstream(folder / "config.json") << config.dump();
}

// Rewrites model.safetensors with one tensor changed or, if `change` returns none, omitted.
inline void rewrite_tensor(const std::filesystem::path& folder, const std::string& name,
                           const std::function<Tensor(const Tensor&)>& change) {
  std::vector<io::NamedTensor> tensors;
  {
    const io::SafetensorsFile file(folder / "model.safetensors");
    for (const std::string& one : file.names()) {
      const Tensor tensor = one == name ? change(file.tensor(one)) : file.tensor(one).clone();
      if (tensor.defined()) tensors.push_back({one, tensor});
    }
  }
  io::write_safetensors(folder / "model.safetensors", tensors);
}

}  // namespace qkv::testing
