// SmolLM 3 (Hugging Face 2025): LLaMA's layout; some layers have no positions, and these have a window in
// some models.

#include <algorithm>

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  std::vector<nn::LayerOptions>& stack = config.decoder.layers;
  std::vector<bool> rotated;
  if (!fields.reads()) {
    for (const nn::LayerOptions& one : stack)
      rotated.push_back(one.attention.positions.kind == nn::PositionKind::rotary);
  }
  describe_rotary_layer(fields, model);
  llama_fields(fields, model, {.key_heads = 4, .max_positions = 32768, .rotary_base = 2000000, .tied = true});
  attention_bias(fields, layer);
  fields("mlp_bias", layer.feed_forward_bias, false);
  int64_t interval = 4;
  if (fields.reads()) fields("no_rope_layer_interval", interval, interval);
  fields.require("no_rope_layer_interval", interval >= 1, "at least 1");
  fields("no_rope_layers", rotated);
  const int64_t window = optional_window(fields, config, 0);
  if (fields.reads()) {
    stack = nn::alike(layers, layer);
    for (int64_t i = 0; i < layers && fields.absent("no_rope_layers"); ++i)
      rotated.push_back((i + 1) % interval != 0);
    fields.require("no_rope_layers", std::ssize(rotated) >= layers, concat("at least ", layers, " flags"));
    for (size_t i = 0; i < std::min(stack.size(), rotated.size()); ++i) {
      if (!rotated[i]) stack[i].attention.positions = {};
    }
  }
  layer_types(fields, model, window,
              [&](int64_t i) { return window > 0 && !rotated.at(static_cast<size_t>(i)); });
  // A parallelisation setting; a field of fused products in some folders.
  fields.irrelevant("pretraining_tp max_window_layers");
}

}  // namespace

LanguageFamily smollm3_family() {
  return {.model_type = "smollm3",
          .classes = {{"SmolLM3ForCausalLM"}, {"SmolLM3Model"}},
          .base = llama_base(),
          .table = table,
          .weight_map = llama_weight_map};
}

}  // namespace qkv::models
