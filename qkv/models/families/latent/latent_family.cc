#include "qkv/models/families/latent/latent_family.h"

namespace qkv::models {

void latent_fields(const Fields& fields, Described<LanguageModelConfig>& model,
                   const LatentDefaults& defaults) {
  nn::LayerOptions& layer = model.layer;
  nn::LatentOptions& latent = layer.attention.latent;
  int64_t& rotated = layer.attention.positions.rotary_features;
  int64_t plain = layer.d_k - rotated, d_v = layer.d_v;
  if (!defaults.whole_head) layer.d_k = rotated;  // "head_dim"
  LlamaDefaults llama = defaults.llama;
  llama.scaled_scores = true;
  llama_sizes(fields, model, llama);
  const int64_t head = layer.d_k;
  fields("qk_rope_head_dim", rotated, defaults.rotated);
  fields("qk_nope_head_dim", plain, defaults.plain);
  const int64_t usual =
      defaults.d_v == 0 && layer.heads > 0 ? layer.d_model / layer.heads : std::max<int64_t>(defaults.d_v, 1);
  fields("v_head_dim", d_v, usual);
  fields.derive("qk_head_dim", plain + rotated);
  fields("kv_lora_rank", latent.rank, defaults.rank);
  fields.count_or_null("q_lora_rank", latent.query_rank, defaults.query_rank);
  fields.require("qk_rope_head_dim", rotated >= 2 && rotated % 2 == 0, "an even number of at least 2");
  fields.require("qk_nope_head_dim", plain >= 1, "at least 1");
  fields.require("v_head_dim", d_v >= 1, "at least 1");
  fields.require("kv_lora_rank", latent.rank >= 1, "at least 1");
  fields.require("num_key_value_heads", layer.key_heads == layer.heads, "num_attention_heads");
  layer.d_k = plain + rotated;
  layer.d_v = d_v;
  const int64_t turned = rotated;
  if (defaults.whole_head) {
    fields.require("head_dim", fields.absent("head_dim") || head == layer.d_k,
                   "qk_nope_head_dim + qk_rope_head_dim");
    llama.rotary_share = static_cast<double>(rotated) / static_cast<double>(std::max<int64_t>(layer.d_k, 1));
  }
  position_fields(fields, model, llama);
  fields.require("partial_rotary_factor", rotated == turned, "the share of qk_rope_head_dim in a head");
  attention_bias(fields, layer);
}

WeightMap latent_weight_map(const LanguageModelConfig& config, bool paired, WeightMap map) {
  const nn::LayerOptions& layer = config.decoder.first();
  const nn::LatentOptions& latent = layer.attention.latent;
  const int64_t heads = layer.heads, rotated = layer.attention.positions.rotary_features,
                plain = heads * (layer.d_k - rotated);
  const std::string ours = "decoder.layers.#.self_attn.", theirs = "model.layers.#.self_attn.";
  std::vector<WeightRule> rules{{ours + "q_a_proj", theirs + "q_a_proj"},
                                {ours + "q_a_norm", theirs + "q_a_layernorm"},
                                {ours + "kv_a_norm", theirs + "kv_a_layernorm"}};
  const auto add = [&](const std::string& whole, const char* first, int64_t outputs, const char* second,
                       int64_t others, int64_t groups) {
    for (WeightRule& rule : concatenated(theirs + whole, Layout::same,
                                         {{ours + first, outputs}, {ours + second, others}}, groups)) {
      if (paired && rule.ours.ends_with("rope_proj"))
        rule.paired = {rule.ours.ends_with("q_rope_proj") ? heads : 1, rotated};
      rules.push_back(std::move(rule));
    }
  };
  add(latent.query_rank > 0 ? "q_b_proj" : "q_proj", "q_proj", plain, "q_rope_proj", heads * rotated, heads);
  add("kv_a_proj_with_mqa", "kv_a_proj", latent.rank, "k_rope_proj", rotated, 1);
  add("kv_b_proj", "k_proj", plain, "v_proj", heads * layer.d_v, heads);
  return with_rules(std::move(rules), std::move(map));
}

}  // namespace qkv::models
