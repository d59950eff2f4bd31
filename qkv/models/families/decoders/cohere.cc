// Command R and Command R7B (Cohere 2024; "cohere" and "cohere2" in transformers): parallel sublayers behind
// one layer norm without bias, rotary pairs side by side, a factor of the logits. In the latter three of four
// layers have a window, and the others no positions.

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/hub/settings.h"

namespace qkv::models {
namespace {

void common_fields(const Fields& fields, Described<LanguageModelConfig>& model, double rotary_base) {
  llama_fields(fields, model,
               {.max_positions = 8192,
                .epsilon = 1e-5,
                .rotary_base = rotary_base,
                .tied = true,
                .epsilon_field = "layer_norm_eps"});
  attention_bias(fields, model.layer);
  fields("logit_scale", model.config.logit_scale, 0.0625);
}

void cohere_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  common_fields(fields, model, 500000);
  nn::QueryKeyNorm& norm = model.layer.attention.query_key_norm;
  bool normed = norm == nn::QueryKeyNorm::each_head;
  fields("use_qk_norm", normed, false);
  norm = normed ? nn::QueryKeyNorm::each_head : nn::QueryKeyNorm::none;
}

void cohere2_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  describe_rotary_layer(fields, model);
  common_fields(fields, model, 10000);
  fields.require("head_dim", model.layer.d_k * model.layer.heads == model.layer.d_model,
                 "hidden_size / num_attention_heads");
  int64_t interval = 4;
  if (fields.reads()) fields({"sliding_window_pattern", "_sliding_window_pattern"}, interval, interval);
  fields.require("sliding_window_pattern", interval >= 1, "at least 1");
  sliding_window(fields, model, 4096, [&](int64_t i) { return (i + 1) % interval != 0; });
  for (nn::LayerOptions& layer : model.config.decoder.layers) {
    if (layer.attention.window == 0) layer.attention.positions = {};
  }
  // Of the hub's folders; transformers reads none of these.
  fields.irrelevant(
      "layer_switch order_of_interleaved_layers position_embedding_type rotary_pct use_embedding_sharing "
      "use_gated_activation use_parallel_block use_parallel_embedding");
}

WeightMap weight_map(const LanguageModelConfig& config) {
  WeightMap map = with_pairs(llama_weight_map(config), config);
  const nn::LayerOptions layer = resolved(config.decoder.first());
  for (WeightRule& rule : map.rules) {
    if (!rule.ours.ends_with("_norm") || rule.ours.find("self_attn.") == std::string::npos) continue;
    const int64_t heads = rule.ours.ends_with("q_norm") ? layer.heads : layer.key_heads;
    rule.paired = {1, layer.d_k};
    if (heads == 1) {
      rule.shape = {1, layer.d_k};
    } else {  // one tensor for the norms of all heads
      rule.ours += ".*";
      rule.theirs += ".weight";
      rule.experts = heads;
    }
  }
  return map;
}

Described<LanguageModelConfig> base() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.norm_kind = nn::NormKind::layer;
  model.layer.norm_bias = false;
  model.layer.order = nn::SublayerOrder::parallel_one_norm;
  return model;
}

}  // namespace

LanguageFamily cohere_family() {
  return {.model_type = "cohere",
          .classes = {{"CohereForCausalLM"}, {"CohereModel"}},
          .base = base(),
          .table = cohere_table,
          .weight_map = weight_map};
}

LanguageFamily cohere2_family() {
  return {.model_type = "cohere2",
          .classes = {{"Cohere2ForCausalLM"}, {"Cohere2Model"}},
          .base = base(),
          .table = cohere2_table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
