#pragma once
// PyTorch's names of parameters.

#include <array>
#include <string>
#include <utility>

#include "tests/golden/pytorch.h"

namespace qkv::testing {

// Which rows of a PyTorch parameter hold one of qkv's: PyTorch keeps the projections of queries, keys and
// values in one matrix (part 0, 1 and 2 of 3).
struct PytorchName {
  std::string name;
  int part = 0, parts = 1;
};

// "encoder.layers.0.encoder_attn.k_proj.weight" -> {"encoder.layers.0.multihead_attn.in_proj_weight", 1, 3}.
inline PytorchName pytorch_name(const Golden& golden, std::string name) {
  const auto replace = [&name](const std::string& from, const std::string& to) {
    const size_t at = name.find(from);
    if (at != std::string::npos) name.replace(at, from.size(), to);
    return at != std::string::npos;
  };
  const bool decoder = golden.has("param.multihead_attn.out_proj.weight") || name.starts_with("decoder.");
  replace("self_attn_layer_norm", "norm1") || replace("encoder_attn_layer_norm", "norm2") ||
      replace("final_layer_norm", decoder ? "norm3" : "norm2") || replace("layer_norm", "norm");
  replace("encoder_attn", "multihead_attn");
  replace("fc1", "linear1") || replace("fc2", "linear2");
  const std::array<std::string, 3> projections{"q_proj.", "k_proj.", "v_proj."};
  for (int part = 0; part < 3; ++part) {
    const std::string& projection = projections[static_cast<size_t>(part)];
    const std::string before = name;
    if (replace(projection, "in_proj_")) {
      if (golden.has("param." + name)) return {name, part, 3};
      name = before;  // different widths: matrices of their own
      replace(projection, projection.substr(0, 6) + "_");
    }
  }
  return {name};
}

// The rows of `prefix + name` that belong to qkv's parameter.
inline Tensor pytorch_tensor(const Golden& golden, const std::string& prefix, const std::string& parameter) {
  const PytorchName where = pytorch_name(golden, parameter);
  const Tensor whole = golden.tensor(prefix + where.name);
  const int64_t rows = whole.dim(0) / where.parts;
  return whole.slice_rows(where.part * rows, rows);
}

template <class Module>
void load_parameters(const Golden& golden, const Module& module) {
  module.visit([&](const std::string& name, const nn::Parameter& parameter) {
    const Tensor value = pytorch_tensor(golden, "param.", name);
    ASSERT_EQ(value.shape(), parameter.shape) << name;
    Variable variable = parameter.variable;
    variable.set_value(value.clone());
  });
}

template <class Module>
void expect_parameter_gradients(const Golden& golden, const Module& module) {
  module.visit([&](const std::string& name, const nn::Parameter& parameter) {
    expect_close(parameter.variable.grad(), pytorch_tensor(golden, "grad.param.", name),
                 "gradient of " + name);
  });
}

}  // namespace qkv::testing
