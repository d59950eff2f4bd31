#include "qkv/models/families/gpt/megatron_family.h"

#include "qkv/models/hub/settings.h"

namespace qkv::models {

WeightMap megatron_weight_map(const LanguageModelConfig& config, int64_t groups, const MegatronNames& names) {
  const nn::LayerOptions layer = resolved(config.decoder.first());
  const std::string ours = "decoder.layers.#.", model = names.model + ".",
                    theirs = concat(model, names.layers, ".#."), attention = theirs + names.attention;
  std::vector<WeightRule> fused = concatenated(attention + ".query_key_value", Layout::same,
                                               {{ours + "self_attn.q_proj", layer.heads * layer.d_k},
                                                {ours + "self_attn.k_proj", layer.key_heads * layer.d_k},
                                                {ours + "self_attn.v_proj", layer.key_heads * layer.d_v}},
                                               groups);
  return with_rules(
      std::move(fused),
      {.rules = {{.ours = "embed_tokens",
                  .theirs = model + names.table,
                  .also = tied_head(config, names.head)},
                 {ours + "self_attn_layer_norm", theirs + "input_layernorm"},
                 {ours + "self_attn.out_proj", attention + ".dense"},
                 {ours + "final_layer_norm", theirs + "post_attention_layernorm"},
                 {ours + "fc1", theirs + "mlp.dense_h_to_4h"},
                 {ours + "fc2", theirs + "mlp.dense_4h_to_h"},
                 {"decoder.layer_norm", model + names.final_norm},
                 {.ours = "lm_head", .theirs = names.head, .module = "lm_head"}},
       .prefix = model,
       .computed = {"rotary_emb.inv_freq", names.attention + ".bias", names.attention + ".masked_bias"}});
}

}  // namespace qkv::models
