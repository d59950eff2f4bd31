// Gemma 4's dense text models (Gemma Team 2026): Gemma 3's norms and windows; layers without a window have
// heads of another width, of which some angles turn, and may use keys as values; values are normalised, too.

#include <cmath>

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/hub/settings.h"

namespace qkv::models {
namespace {

LlamaDefaults gemma4_defaults() {
  return {.key_heads = 4,
          .head_width = 256,
          .tied = true,
          .activation_field = "hidden_activation",
          .activation = "gelu_pytorch_tanh"};
}

// transformers 5 writes the sizes of layers that differ; folders before it have those of all full layers.
void sizes_by_layer(const Fields& fields, Described<LanguageModelConfig>& model) {
  std::vector<nn::LayerOptions>& stack = model.config.decoder.layers;
  int64_t width = 512, key_heads = model.layer.key_heads;
  const bool listed = !fields.reads() || fields.reader()->has("per_layer_config");
  if (fields.reads()) {
    fields("global_head_dim", width, width);
    fields("num_global_key_value_heads", key_heads, key_heads);
  }
  for (nn::LayerOptions& layer : stack) {
    if (listed || layer.attention.window > 0) continue;
    layer.d_k = layer.d_v = width;
    if (layer.attention.keys_as_values) layer.key_heads = key_heads;
  }
  if (listed)
    fields.object("per_layer_config", [&](const Fields& layers) {
      for (size_t i = 0; i < stack.size(); ++i) {
        nn::LayerOptions& layer = stack[i];
        layers.object(std::to_string(i).c_str(), [&](const Fields& own) {
          own("head_dim", layer.d_k, layer.d_k);
          own("num_key_value_heads", layer.key_heads, layer.key_heads);
        });
        layer.d_v = layer.d_k;
      }
    });
}

// The angles that turn: transformers rounds their number down.
int64_t angles_of(double share, int64_t width) {
  return static_cast<int64_t>(share * static_cast<double>(width)) / 2;
}

// An object for each kind of layer.
void rotary(const Fields& fields, std::vector<nn::LayerOptions>& stack, bool windowed) {
  nn::PositionOptions positions{.kind = nn::PositionKind::rotary, .rotary_base = windowed ? 1e4 : 1e6};
  double share = windowed ? 1 : 0.25;
  int64_t width = 0;
  for (const nn::LayerOptions& layer : stack) {
    if ((layer.attention.window > 0) != windowed) continue;
    width = layer.d_k;
    if (fields.reads()) continue;
    positions = layer.attention.positions;
    if (positions.rotary_angles == 0) {
      share = 1;
    } else {
      share = 2.0 * static_cast<double>(positions.rotary_angles) / static_cast<double>(width);
      if (angles_of(share, width) < positions.rotary_angles) share = std::nextafter(share, 1);
    }
  }
  fields.object(windowed ? "sliding_attention" : "full_attention", [&](const Fields& own) {
    std::string type = share == 1 ? "default" : "proportional";
    own("rope_type", type, "default");
    own("rope_theta", positions.rotary_base, 1e4);
    if (type == "proportional") own("partial_rotary_factor", share, 1);
    own.require("partial_rotary_factor", share > 0 && share <= 1, "a number above 0, at most 1");
    own.require("rope_type", type == "proportional" || type == "default", "default or proportional");
    own.expect("factor", 1.0);
    if (type == "default") share = 1;
  });
  const int64_t angles = angles_of(share, width);
  fields.require("rope_parameters", width == 0 || angles >= 1,
                 "a partial_rotary_factor of at least an angle");
  for (nn::LayerOptions& layer : stack) {
    if ((layer.attention.window > 0) != windowed) continue;
    layer.attention.positions = positions;
    layer.attention.positions.rotary_angles = 2 * angles == width ? 0 : angles;
  }
}

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  std::vector<nn::LayerOptions>& stack = model.config.decoder.layers;
  for (nn::LayerOptions& layer : stack) {
    layer = resolved(layer);
    if (layer.attention.window > 0) model.layer = layer;  // written as that of all
  }
  llama_sizes(fields, model, gemma4_defaults());
  model.config.embedding.factor = std::sqrt(static_cast<float>(model.layer.d_model));
  attention_bias(fields, model.layer);
  fields("max_position_embeddings", model.config.max_positions, 131072);
  fields.number_or_null("final_logit_softcapping", model.config.logit_softcap, 0);
  sliding_window(fields, model, 512, [](int64_t i) { return (i + 1) % 6 != 0; });
  bool shared = !stack.empty() && stack.back().attention.keys_as_values;
  fields("attention_k_eq_v", shared, false);
  for (nn::LayerOptions& layer : stack)
    layer.attention.keys_as_values = shared && layer.attention.window == 0;
  fields.require("layer_types", stack.empty() || stack.back().attention.window == 0,
                 "full_attention as the last");
  sizes_by_layer(fields, model);
  for (const bool windowed : {false, true}) {
    if (fields.reads() && !fields.reader()->has("rope_parameters")) rotary(fields, stack, windowed);
  }
  fields.object("rope_parameters", [&](const Fields& kinds) {
    for (const bool windowed : {false, true}) rotary(kinds, stack, windowed);
  });
  int64_t inputs = 0;
  fields("hidden_size_per_layer_input", inputs, 256);
  fields.require("hidden_size_per_layer_input", inputs == 0, "0: inputs of each layer are not supported");
  fields.expect("num_kv_shared_layers", 0);
  fields.expect("enable_moe_block", false);
  std::string both;
  if (fields.reads()) fields("use_bidirectional_attention", both, "");
  fields.require("use_bidirectional_attention", both.empty() || both == "vision", "null or vision");
  // Of what is refused above.
  fields.irrelevant(
      "vocab_size_per_layer_input use_double_wide_mlp num_experts top_k_experts moe_intermediate_size");
}

WeightMap weight_map(const LanguageModelConfig& config) {
  return with_rules({{"decoder.layers.#", "model.layers.#"}},
                    output_norm_weight_map(config));  // layer_scalar
}

Described<LanguageModelConfig> base() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.norm = nn::NormPlacement::both;
  model.layer.layer_scalar = true;
  model.layer.attention.scale = 1.0f;
  model.layer.attention.query_key_norm = nn::QueryKeyNorm::head;
  model.layer.attention.value_norm = true;
  return model;
}

}  // namespace

LanguageFamily gemma4_family() {
  return {.model_type = "gemma4_text",
          .classes = {{"Gemma4ForCausalLM"}, {"Gemma4TextModel"}},
          .base = base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
