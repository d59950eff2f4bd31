// gpt-oss (OpenAI 2025): attention sinks, a window in every other layer, experts with biases and a clamped
// SwiGLU; weights of experts as one tensor, often MXFP4.

#include <cmath>

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/experts/expert_layers.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  llama_fields(
      fields, model,
      {.key_heads = 8, .max_positions = 131072, .head_width = 64, .epsilon = 1e-5, .rotary_base = 150000});
  bool bias = layer.attention.bias.query;
  fields("attention_bias", bias, true);
  layer.attention.bias = nn::ProjectionBiases::all(bias);
  expert_fields(fields, "num_local_experts", layer.experts, 128, 4);
  fields("swiglu_limit", layer.gate_clamp.limit, 7);
  fields("swiglu_alpha", layer.gate_clamp.alpha, 1.702);
  fields.require("swiglu_limit", layer.gate_clamp.limit > 0, "a number above 0");
  fields.require("swiglu_alpha", layer.gate_clamp.alpha > 0, "a number above 0");
  int64_t window = window_of(config);
  if (!fields.reads() && window == 0) window = 128;  // transformers requires one
  fields.count_or_null("sliding_window", window, 128);
  layer_types(fields, model, window, [](int64_t i) { return i % 2 == 0; });
  fields.irrelevant("quantization_config experts_per_token initial_context_length");
}

Described<LanguageModelConfig> base() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.feed_forward_bias = true;
  model.layer.experts = {.router_bias = true};
  model.layer.attention.sinks = true;
  constexpr double kFactor = 32;
  model.layer.attention.positions.rotary_scaling = {.kind = nn::RotaryScalingKind::yarn,
                                                    .factor = kFactor,
                                                    .first_positions = 4096,
                                                    .magnitude = 0.1 * std::log(kFactor) + 1,
                                                    .truncate = false};
  return model;
}

WeightMap weight_map(const LanguageModelConfig& config) {
  WeightMap map = llama_weight_map(config);
  const std::string ours = "decoder.layers.#.", theirs = "model.layers.#.";
  const nn::LayerOptions& layer = config.decoder.first();
  const auto add = [&](WeightRule rule) {
    if (rule.ours.find('*') != std::string::npos) rule.experts = layer.experts.count;
    map.rules.push_back(std::move(rule));
  };
  add({ours + "router", theirs + "mlp.router"});
  add({ours + "self_attn", theirs + "self_attn"});  // sinks
  for (WeightRule& rule :
       concatenated(theirs + "mlp.experts.gate_up_proj", Layout::transposed,
                    {{ours + "experts.*.gate", layer.d_ff}, {ours + "experts.*.fc1", layer.d_ff}},
                    layer.d_ff))  // gate and up alternate
    add(std::move(rule));
  add({ours + "experts.*.fc2", theirs + "mlp.experts.down_proj", Layout::transposed});
  return map;
}

}  // namespace

LanguageFamily gpt_oss_family() {
  return {.model_type = "gpt_oss",
          .classes = {{"GptOssForCausalLM"}, {"GptOssModel"}},
          .base = base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
