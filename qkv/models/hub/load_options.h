#pragma once
// Options for loading model folders.

#include <filesystem>
#include <optional>

#include "qkv/tensor/device.h"
#include "qkv/tensor/dtype.h"

namespace qkv::models {

struct TextEncoderConfig;

struct LoadOptions {
  // The dtype of weight matrices and tables: f32, bf16, f16 or i8 (ops/quantize.h). Nothing: as stored.
  std::optional<DType> dtype = {};
  // Whether values will be written, as in training: written pages of mapped files become private copies.
  // Otherwise parameters are frozen (Variable::set_requires_grad), values in the mapped file are read-only
  // (Tensor::read_only), and the source pages of converted weights are released.
  bool trainable = false;
  // A LoRA adapter for the model, a folder in PEFT's layout (adapter.h), whose config.json, if it has one,
  // takes the place of the model's; empty: none.
  std::filesystem::path adapter = {};
  // A model of the same family whose heads are wanted: those of them that the files have are loaded as well,
  // whatever class config.json names. Null: the class's.
  const TextEncoderConfig* heads = nullptr;
  // Where the model computes. On the host, values that need no conversion stay in the mapped file.
  Device device = Device::cpu;
  // nn::StackOptions::activations: f32, or bf16 on devices other than the CPU.
  DType activations = DType::f32;
};

}  // namespace qkv::models
