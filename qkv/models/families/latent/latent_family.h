#pragma once
// The names of latent attention (DeepSeek-AI 2024, "DeepSeek-V2"), which other families share: the rest is
// LLaMA's.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {

struct LatentDefaults {
  LlamaDefaults llama = {};
  int64_t query_rank = 1536, rank = 512;
  int64_t plain = 128, rotated = 64, d_v = 128;  // features of a head; d_v 0: d_model / heads
  // "head_dim" is the width of a head, of which "partial_rotary_factor" is the rotated share. Otherwise it is
  // the number of rotated features, and there is no such share.
  bool whole_head = false;
};

// The fields of sizes, positions and attention, with "attention_bias".
void latent_fields(const Fields& fields, Described<LanguageModelConfig>& model,
                   const LatentDefaults& defaults);
// LLaMA's names for all but attention. `paired`: rotated features are side by side in the file.
WeightMap latent_weight_map(const LanguageModelConfig& config, bool paired, WeightMap map);

}  // namespace qkv::models
