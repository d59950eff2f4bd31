#pragma once
// Weights of experts in MXFP4 (Open Compute Project, "OCP Microscaling Formats (MX) Specification", 2023):
// elements of 4 bits (E2M1), in blocks of 32 along the inputs with one scale, a power of two (E8M0).
// As gpt-oss stores them: blocks U8 [experts, outputs, inputs / 32, 16], an element with an even index in the
// lower half of its byte, and scales U8 [experts, outputs, inputs / 32].

#include <string>

#include "qkv/models/hub/load_options.h"
#include "qkv/models/hub/weight_map.h"

namespace qkv::models {

// The names of the two tensors.
struct Mxfp4 {
  explicit Mxfp4(const std::string& weights) : blocks(weights + "_blocks"), scales(weights + "_scales") {}
  std::string blocks, scales;
};

// Loads one expert's weights, widened to bf16, which holds them exactly, or to the dtype of the options.
// Throws DataError naming file and tensor for another dtype or shape, or a scale that is not a number.
void load_mxfp4(const TensorFiles& files, const Mxfp4& names, const MappedName& from,
                const nn::Parameter& parameter, const LoadOptions& options);

}  // namespace qkv::models
