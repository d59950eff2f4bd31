#pragma once
// PyTorch's parameter names and layouts, for modules of qkv/nn.

#include <string>
#include <utility>
#include <vector>

#include "qkv/nn/parameter.h"
#include "tests/support/golden.h"

namespace qkv::testing {

// Converts qkv's name within a block to PyTorch's.
inline std::string torch_name(std::string name) {
  static const std::vector<std::pair<std::string, std::string>> kEncoder{{"encoder_attn_layer_norm", "norm2"},
                                                                         {"encoder_attn", "multihead_attn"},
                                                                         {"self_attn_layer_norm", "norm1"},
                                                                         {"fc1", "linear1"},
                                                                         {"fc2", "linear2"}};
  const auto replace = [&name](const std::string& from, const std::string& to) {
    const size_t at = name.find(from);
    if (at != std::string::npos) name.replace(at, from.size(), to);
  };
  // The last norm is the second or the third, depending on the block.
  if (!name.starts_with("decoder")) replace("final_layer_norm", "norm2");
  replace("final_layer_norm", "norm3");
  for (const auto& [from, to] : kEncoder) replace(from, to);
  replace("layer_norm", "norm");
  return name;
}

// The part of a PyTorch tensor that is qkv's parameter `name`, from the entry `prefix` + PyTorch's name;
// in_proj_weight stacks the weights of queries, keys and values.
inline Tensor torch_tensor(const Golden& golden, const std::string& prefix, const std::string& name,
                           const Shape& shape) {
  for (int part = 0; part < 3; ++part) {
    const std::string projection = std::string(1, "qkv"[part]) + "_proj.";
    const size_t at = name.find(projection);
    if (at == std::string::npos) continue;
    const std::string block = name.substr(0, at), kind = name.substr(at + projection.size());
    const std::string own = prefix + block + projection.substr(0, 6) + "_" + kind;
    if (golden.has(own)) return golden[own];
    return golden[prefix + block + "in_proj_" + kind].slice_rows(part * shape[0], shape[0]);
  }
  return golden[prefix + name];
}

// Loads PyTorch's parameters into a module, on the device. `rename` maps the module's names to those of the
// file.
template <class Module, class Rename>
void load_torch(const Module& module, const Golden& golden, const Rename& rename,
                Device device = Device::cpu) {
  module.visit([&](const std::string& name, const nn::Parameter& parameter) {
    const Tensor value = torch_tensor(golden, "param.", rename(name), parameter.shape);
    ASSERT_EQ(value.shape(), parameter.shape) << name;
    Variable variable = parameter.variable;
    variable.set_value(from_host(value.clone(), device));
  });
}

template <class Module, class Rename>
void expect_torch_gradients(const Module& module, const Golden& golden, const Rename& rename) {
  module.visit([&](const std::string& name, const nn::Parameter& parameter) {
    expect_close(parameter.variable.grad(),
                 torch_tensor(golden, "grad.param.", rename(name), parameter.shape), "gradient of " + name);
  });
}

}  // namespace qkv::testing
