#pragma once
// Stacks of two layers, for tests.

#include "qkv/nn/decoder.h"

namespace qkv::testing {

inline nn::StackOptions small_stack(nn::NormPlacement norm) {
  return {.layers = nn::alike(2, {.d_model = 24,
                                  .heads = 3,
                                  .d_k = 5,
                                  .d_v = 11,
                                  .d_ff = 40,
                                  .activation = Activation::silu,
                                  .norm = norm}),
          .final_norm = norm == nn::NormPlacement::pre};
}

// LLaMA's blocks: no memory, rotary positions, grouped heads, a gate, RMS norms.
inline nn::StackOptions language_stack() {
  return {.layers = nn::alike(2, {.d_model = 24,
                                  .heads = 4,
                                  .key_heads = 2,
                                  .d_k = 6,
                                  .d_v = 6,
                                  .d_ff = 40,
                                  .activation = Activation::silu,
                                  .gated = true,
                                  .feed_forward_bias = false,
                                  .norm = nn::NormPlacement::pre,
                                  .norm_kind = nn::NormKind::rms,
                                  .attention = {.bias = nn::ProjectionBiases::all(false),
                                                .positions = {.kind = nn::PositionKind::rotary},
                                                .softcap = 0.8f},
                                  .reads_memory = false}),
          .final_norm = true};
}

}  // namespace qkv::testing
