#pragma once
// Converts a model's weights to another dtype.

#include <string>

#include "qkv/nn/parameter.h"
#include "qkv/ops/quantize.h"

namespace qkv::testing {

// Converts the weight matrices and tables.
template <class Model>
void quantize_model(DType dtype, const Model& model) {
  model.visit([&](const std::string&, const nn::Parameter& parameter) {
    if (parameter.allows_quantized()) parameter.set_value(to_dtype(parameter.weight().value(), dtype));
  });
}

}  // namespace qkv::testing
