#pragma once
// One run of a model: what every module may need to know besides its input.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "qkv/kernels/dropout.h"
#include "qkv/ops/linear.h"
#include "qkv/tensor/tensor.h"

namespace qkv::nn {

// Gets the attention weights of each layer as it runs: its name ("decoder.layers.1.encoder_attn") and one
// tensor [heads, queries, keys] a sequence.
using AttentionObserver = std::function<void(const std::string& name, const std::vector<Tensor>& weights)>;

// Dropout's random numbers are keyed by the seed, the step, and the order in which the places of the model
// come in a run.
struct ForwardContext {
  // Dropout is active, and products pack their weights, as these change with each step.
  bool training = false;
  uint64_t seed = 0;
  uint32_t step = 0;       // counts forward runs in training, micro-batches included
  uint32_t first_row = 0;  // of the whole batch, where several workers share one
  // Layers keep only their results, and are run again when gradients are computed: less memory, more time,
  // the same bits.
  bool recompute = false;
  AttentionObserver observer = {};

  // How affine maps read their weights.
  WeightLayout weight_layout() const { return training ? WeightLayout::packed : WeightLayout::in_place; }

  // The dropout of the next place in the model.
  kernels::Dropout dropout(float rate) {
    const uint32_t site = next_site++;
    if (!training) return {};
    return {.rate = rate, .seed = seed, .step = step, .site = site, .first_row = first_row};
  }

  uint32_t next_site = 0;  // the number of the next place with dropout; dropout() counts it up
};

}  // namespace qkv::nn
