// MiMo V2 Flash (Xiaomi 2026): the experts of DeepSeek-V3 without one of all tokens; layers with a window
// have sinks, twice the key heads, and rotary positions of their own.

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/experts/deepseek_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  nn::LayerOptions& layer = model.layer;
  nn::AttentionVariant& attention = layer.attention;
  std::vector<nn::LayerOptions>& stack = model.config.decoder.layers;
  if (!fields.reads() && attention.window > 0) layer.key_heads /= 2;
  ExpertLayers mixed = routed_layers(model);
  int64_t d_v = layer.d_v;
  const LlamaDefaults defaults{
      .key_heads = 4, .max_positions = 131072, .head_width = 192, .epsilon = 1e-5, .rotary_share = 0.334};
  llama_sizes(fields, model, defaults);
  fields("v_head_dim", d_v, 128);
  fields.require("v_head_dim", d_v >= 1, "at least 1");
  layer.d_v = d_v;
  input_bias(fields, layer);
  fields("attention_value_scale", attention.value_scale, fields.is_null("attention_value_scale") ? 1 : 0.707);
  sigmoid_fields(fields, model, mixed, {.shared = 0, .listed = true});
  sliding_window(fields, model, 129, [](int64_t i) { return i != 0 && (i + 1) % 6 != 0; });
  for (nn::LayerOptions& one : stack) {
    if (!fields.reads()) break;
    one.attention.positions.rotary_features =
        static_cast<int64_t>(static_cast<double>(layer.d_k) * defaults.rotary_share);
    if (one.attention.window == 0) continue;
    one.key_heads *= 2;
    one.attention.sinks = true;
  }
  rotary_kinds(fields, model, defaults);
}

WeightMap weight_map(const LanguageModelConfig& config) {
  return with_rules({{"decoder.layers.#.self_attn.sinks", "model.layers.#.self_attn.attention_sink_bias"}},
                    routed_weight_map(config));
}

}  // namespace

LanguageFamily mimo_v2_flash_family() {
  return {.model_type = "mimo_v2_flash",
          .classes = {{"MiMoV2FlashForCausalLM"}, {"MiMoV2FlashModel"}},
          .base = llama_base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
