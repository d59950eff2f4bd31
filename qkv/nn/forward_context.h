#pragma once
// The context of one forward run of a model, shared by all modules.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "qkv/kernels/dropout.h"
#include "qkv/ops/linear.h"
#include "qkv/tensor/tensor.h"

namespace qkv {
class RouterBalance;  // ops/general/router.h
}

namespace qkv::nn {

// Receives the attention weights of each layer as it runs: its name ("decoder.layers.1.encoder_attn") and one
// tensor [heads, queries, keys] per sequence.
using AttentionObserver = std::function<void(const std::string& name, const std::vector<Tensor>& weights)>;

// Dropout's random numbers are keyed by the seed, the step, and the index of the dropout site in order of
// execution.
struct ForwardContext {
  // Enables dropout. Products pack their weights, because these change with each step.
  bool training = false;
  uint64_t seed = 0;
  uint32_t step = 0;  // number of the training forward run, micro-batches included
  // Indices of the first row and of the first sequence in the whole batch, if workers share a batch.
  uint32_t first_row = 0, first_sequence = 0;
  // Gradient checkpointing: layers keep only their results and are run again in the backward pass. Less
  // memory, more time, the same bits.
  bool recompute = false;
  // In training: the dtype to which products round their operands, f32 or bf16 (WeightLayout::packed_bf16),
  // and on devices other than the CPU that of activations (StackOptions).
  DType operands = DType::f32;
  AttentionObserver observer = {};
  std::shared_ptr<RouterBalance> balance = nullptr;  // the balancing loss of routers; null: none

  // How linear layers read their weights.
  WeightLayout weight_layout() const {
    if (!training) return WeightLayout::in_place;
    return operands == DType::bf16 ? WeightLayout::packed_bf16 : WeightLayout::packed;
  }

  // The dtype of the activations of a stack with this option on this device.
  DType activations(DType of_stack, Device device) const {
    return training && device != Device::cpu ? operands : of_stack;
  }

  // The dropout of the next dropout site.
  kernels::Dropout dropout(float rate) {
    const uint32_t site = next_site++;
    if (!training) return {};
    return {.rate = rate, .seed = seed, .step = step, .site = site, .first_row = first_row};
  }

  // Likewise for a site that drops whole sequences (qkv/ops/general/drop_path.h).
  kernels::Dropout drop_path(float rate) {
    kernels::Dropout drawn = dropout(rate);
    drawn.first_row = first_sequence;
    return drawn;
  }

  uint32_t next_site = 0;  // index of the next dropout site, incremented by dropout() and drop_path()
};

}  // namespace qkv::nn
