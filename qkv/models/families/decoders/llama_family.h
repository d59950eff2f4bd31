#pragma once
// The layout of LLaMA (Touvron et al. 2023), which other families share: RMS norms, rotary positions, gated
// feed-forward, grouped-query attention.

#include "qkv/models/hub/family.h"

namespace qkv::models {

// Values of fields that a folder does not have.
struct LlamaDefaults {
  int64_t key_heads = 0;  // 0: as many as heads
  int64_t max_positions = 2048;
};

// Blocks without biases and without a window.
Described<LanguageModelConfig> llama_base();
// All fields but those of biases and window.
void llama_fields(const Fields& fields, Described<LanguageModelConfig>& model,
                  const LlamaDefaults& defaults = {});
WeightMap llama_weight_map(const LanguageModelConfig& config);

}  // namespace qkv::models
