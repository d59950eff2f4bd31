#pragma once
// What a caller may ask for when a model folder is opened.

#include <optional>

#include "qkv/tensor/device.h"
#include "qkv/tensor/dtype.h"

namespace qkv::models {

struct LoadOptions {
  // The dtype of weight matrices and tables: f32, bf16 or i8 (ops/quantize.h). Nothing: as the folder has
  // them (float16 as f32).
  std::optional<DType> dtype = {};
  // Whether the values may be written to, as training does: pages of the mapped files become the process's
  // own when they are. Otherwise parameters are frozen (Variable::set_requires_grad), writing to them is a
  // crash, and pages that were converted are given back.
  bool trainable = false;
  // Where the model computes. On the host's, what needs no conversion stays in the mapped file.
  Device device = Device::cpu;
};

}  // namespace qkv::models
