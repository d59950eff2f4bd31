#pragma once
// The layout of LLaMA (Touvron et al. 2023), which other families share: RMS norms, rotary positions, gated
// feed-forward, grouped-query attention.

#include <functional>

#include "qkv/models/hub/family.h"

namespace qkv::models {

// Values of fields that a folder does not have.
struct LlamaDefaults {
  int64_t key_heads = 0;  // 0: as many as heads
  int64_t max_positions = 2048;
  int64_t head_width = 0;  // 0: d_model / heads
  double epsilon = 1e-6, rotary_base = 10000;
  bool tied = false;
  bool dense_width = true;  // "intermediate_size"; the family has none if all layers have experts
  const char* activation_field = "hidden_act";  // null: the family visits it
  const char* activation = "silu";
  // "partial_rotary_factor", the share of a head's features that is rotated; 0: the family has no such field.
  double rotary_share = 0;
  Fields::Key layers_field = "num_hidden_layers", epsilon_field = "rms_norm_eps",
              share_field = "partial_rotary_factor", base_field = "rope_theta",
              positions_field = "max_position_embeddings";
  // "original_max_position_embeddings" beside the fields of longrope; 0: the family has no such field.
  int64_t first_positions = 0;
  bool query_growth = false;   // has "llama_4_scaling_beta"
  bool magnitudes = false;     // longrope has "short_mscale" and "long_mscale" (Phi-3.5-MoE)
  bool scaled_scores = false;  // yarn's "mscale_all_dim" also has a factor of the scores (latent attention)
  bool fixed_alpha = false;    // "dynamic" scaling has an "alpha", which does not depend on the length
};

// Blocks without biases and without a window.
Described<LanguageModelConfig> llama_base();
// The same with layer norms, biases, and a feed-forward without a gate.
Described<LanguageModelConfig> biased_base();
// All fields but those of positions, biases and window.
void llama_sizes(const Fields& fields, Described<LanguageModelConfig>& model,
                 const LlamaDefaults& defaults = {});
// "max_position_embeddings" and the fields of rotary positions, after d_k.
void position_fields(const Fields& fields, Described<LanguageModelConfig>& model,
                     const LlamaDefaults& defaults = {});
// Likewise, but full layers and those with a window have their own: two objects within "rope_parameters". Of
// use after layer_types(). Before transformers 5, "rope_scaling" concerned full layers, and the base of the
// others, `local` if missing, had a field of its own; null: it is the base of full layers.
void rotary_fields_by_kind(const Fields& fields, Described<LanguageModelConfig>& model,
                           const LlamaDefaults& defaults, const char* local_field = nullptr,
                           double local = 0);
// The same in families that never had these fields.
void rotary_kinds(const Fields& fields, Described<LanguageModelConfig>& model, const LlamaDefaults& defaults);
// On writing: the fields of rotary positions are those of the first layer that has them.
void describe_rotary_layer(const Fields& fields, Described<LanguageModelConfig>& model);
// Sizes, and positions that are the same in all layers.
void llama_fields(const Fields& fields, Described<LanguageModelConfig>& model,
                  const LlamaDefaults& defaults = {});
// "layer_types": each layer has the window, or none. A folder without the list has the window in layer i if
// usual(i). Sets the stack, after all fields of its layers.
void layer_types(const Fields& fields, Described<LanguageModelConfig>& model, int64_t window,
                 const std::function<bool(int64_t)>& usual);
// "sliding_window" beside "layer_types".
void sliding_window(const Fields& fields, Described<LanguageModelConfig>& model, int64_t otherwise,
                    const std::function<bool(int64_t)>& usual);
// The same in models whose layers without the window have no positions, unless there is no window.
void placed_windows(const Fields& fields, Described<LanguageModelConfig>& model, int64_t otherwise,
                    const std::function<bool(int64_t)>& usual);
// EXAONE's: three of four layers have the window, or what "sliding_window_pattern" says.
void exaone_windows(const Fields& fields, Described<LanguageModelConfig>& model);
// The window of the first layer that has one; 0: none.
int64_t window_of(const LanguageModelConfig& config);
// "sliding_window", of use only beside "use_sliding_window": the window, 0 without one.
int64_t optional_window(const Fields& fields, const LanguageModelConfig& config, int64_t usual);
// Qwen's: the layers from "max_window_layers" on have the optional window, unless "layer_types" differ.
void upper_windows(const Fields& fields, Described<LanguageModelConfig>& model);
// "attention_bias": of all four projections.
void attention_bias(const Fields& fields, nn::LayerOptions& layer, bool otherwise = false);
// Likewise, of queries, keys and values.
void input_bias(const Fields& fields, nn::LayerOptions& layer, const Fields::Key& key = "attention_bias",
                bool otherwise = false);
// "qk_layernorm": layer norms of each head's queries and keys, with the names of Phi and Persimmon.
void query_key_layer_norm(const Fields& fields, nn::LayerOptions& layer, bool otherwise);
WeightMap with_query_key_layer_norm(WeightMap map);
// Refuses other heads than those of models without fields for them: a key head for each, of d_model / heads.
void require_usual_heads(const Fields& fields, const nn::LayerOptions& layer);
// LLaMA's names, with norms of queries and keys.
WeightMap llama_weight_map(const LanguageModelConfig& config);
// The same with norms of the sublayers' results, and Gemma 2's names of norms.
WeightMap output_norm_weight_map(const LanguageModelConfig& config);
// The map for files in which the features that are rotated together are side by side.
WeightMap with_pairs(WeightMap map, const LanguageModelConfig& config);
// The map for files in which gate and inputs of the feed-forward are one tensor.
WeightMap with_fused_gate(WeightMap map, const LanguageModelConfig& config);
// The map with rules that count before its own.
WeightMap with_rules(std::vector<WeightRule> rules, WeightMap map);

}  // namespace qkv::models
