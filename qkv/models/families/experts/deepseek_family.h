#pragma once
// The experts of DeepSeek-V3 (DeepSeek-AI 2024), which other families share: experts of all tokens beside
// those that are chosen, within groups, in some layers.

#include "qkv/models/families/experts/expert_layers.h"

namespace qkv::models {

// Values of fields that a folder does not have.
struct RoutedDefaults {
  int64_t d_ff = 2048, count = 256, per_token = 8, shared = 1, groups = 1, choices = 1, dense = 1;
  double scale = 1;
  bool normalise = true;
  bool listed = false, counted = false;  // layer_kinds() has the kind of each layer
  bool grouped = true;                   // has "n_group", "topk_group" and "norm_topk_prob"
  Fields::Key count_field = "n_routed_experts", shared_field = "n_shared_experts";  // shared 0: none
  const char* scale_field = "routed_scaling_factor";
};

// What expert_layers() has, and the width of dense layers as that of model.layer.
ExpertLayers routed_layers(Described<LanguageModelConfig>& model);
// Sets the stack, after all fields of its layers. `mixed` is what routed_layers() had on writing.
void routed_fields(const Fields& fields, Described<LanguageModelConfig>& model, ExpertLayers& mixed,
                   const RoutedDefaults& usual);
// Those of V3, whose weights are sigmoids, with a correction of the choice.
void sigmoid_fields(const Fields& fields, Described<LanguageModelConfig>& model, ExpertLayers& mixed,
                    const RoutedDefaults& usual);

// LLaMA's names beside those of experts.
WeightMap routed_weight_map(const LanguageModelConfig& config);
// The same with latent attention.
WeightMap routed_latent_weight_map(const LanguageModelConfig& config);

}  // namespace qkv::models
