#pragma once
// What families with mixtures of experts share.

#include <functional>

#include "qkv/models/hub/family.h"

namespace qkv::models {

// A stack in which some layers have experts and others have none.
struct ExpertLayers {
  nn::ExpertOptions experts = {.count = 1, .per_token = 1};  // of use only where layers have experts
  int64_t d_ff = 1;                                          // of an expert
  int64_t dense_d_ff = 0;                                    // of a layer without experts; 0: there is none
  std::vector<int64_t> dense = {};                           // the layers without experts
};

// The fields of how many experts there are, at least 1, and how many a token has; and those of training.
void expert_fields(const Fields& fields, const Fields::Key& count, nn::ExpertOptions& experts,
                   int64_t usual_count, int64_t usual_per_token);

// "mlp_layer_types": "dense" or "sparse". A folder without the list has `usual` dense layers first, or, if
// `counted`, "first_k_dense_replace". Sets layers.dense.
void layer_kinds(const Fields& fields, ExpertLayers& layers, int64_t count, int64_t usual, bool counted);

// Those of a stack, to be written.
ExpertLayers expert_layers(const nn::StackOptions& stack);
// The stack of layers that are like model.layer but for their feed-forward, which has experts unless
// dense(layer). `layers.dense` is not read.
void set_expert_layers(Described<LanguageModelConfig>& model, const ExpertLayers& layers,
                       const std::function<bool(int64_t)>& dense);

// Qwen's fields of experts and of the layers that have them. Sets the stack, after all fields of its layers.
// `layers` is what expert_layers() had on writing, with shared experts.
struct QwenDefaults {
  int64_t d_ff = 768, count = 128, per_token = 8;
  bool normalise = false;
  std::vector<int64_t> dense = {};
};
void qwen_expert_layers(const Fields& fields, Described<LanguageModelConfig>& model, ExpertLayers& layers,
                        const QwenDefaults& usual);

// The names of the tensors within "model.layers.#.".
struct ExpertNames {
  const char *router = "mlp.gate", *experts = "mlp.experts.*.";
  const char *gate = "gate_proj", *up = "up_proj", *down = "down_proj";
};
// LLaMA's names beside those of experts.
WeightMap expert_weight_map(const LanguageModelConfig& config, const ExpertNames& names);
// The map with the names of an expert of all tokens, within "model.layers.#.".
WeightMap with_shared_expert(WeightMap map, const std::string& name);
WeightMap mixtral_weight_map(const LanguageModelConfig& config);  // of Mixtral and Phi-3.5-MoE

}  // namespace qkv::models
