#pragma once
// The names of Megatron-LM (Shoeybi et al. 2019), which GPT-NeoX, BLOOM and Falcon share: queries, keys and
// values are one projection.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {

// The parts of the names that differ.
struct MegatronNames {
  std::string model = "transformer", layers = "h", attention = "self_attention", table = "word_embeddings",
              final_norm = "ln_f", head = "lm_head";
};

// `groups`: those of the fused projection (WeightRule::groups).
WeightMap megatron_weight_map(const LanguageModelConfig& config, int64_t groups,
                              const MegatronNames& names = {});

}  // namespace qkv::models
