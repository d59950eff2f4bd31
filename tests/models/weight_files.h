#pragma once
// Comparing stored weights, and damaging model folders.

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"
#include "qkv/kernels/cpu/matmul.h"
#include "qkv/models/hub/pretrained.h"
#include "tests/support/scratch.h"

namespace qkv::testing {

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.as_bytes().data(), b.as_bytes().data(), a.bytes()) == 0;
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

// A folder with int8 weights, to be damaged.
class DamagedWeights : public ::testing::Test {
 protected:
  void set(const std::string& key, const std::string& value) const { set_config_field(folder_, key, value); }
  void rewrite(const std::string& name, const std::function<Tensor(const Tensor&)>& change) const {
    rewrite_tensor(folder_, name, change);
  }
  // The error names these parts.
  void expect_refusal(const std::vector<std::string>& parts) const {
    expect_parts(message_of<DataError>([&] { load(folder_); }), parts);
  }
  virtual void load(const std::filesystem::path& folder) const = 0;

  const Scratch scratch_;
  const std::filesystem::path folder_ = scratch_ / "model";
};

// After the first step nothing is compiled, and a second run requests no memory from the system.
template <class Model, class Start>
void expect_lean_steps(const Model& model, const Start& start, int32_t token, const std::string& what) {
  const auto run = [&] {
    nn::DecoderState state = start();
    const Tensor ids = Tensor::from(std::vector{token}, {1});
    model.step(ids, state);
    const uint64_t compiled = kernels::cpu::compiled_products();
    for (int i = 0; i < 10; ++i) model.step(ids, state);
    EXPECT_EQ(kernels::cpu::compiled_products(), compiled) << what;
  };
  run();
  const uint64_t requests = allocator_stats().system_requests;
  run();
  EXPECT_EQ(allocator_stats().system_requests, requests) << what;
}

}  // namespace qkv::testing
