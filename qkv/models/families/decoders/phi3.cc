// Phi-3 and Phi-4 (Abdin et al. 2024): LLaMA's layout, with fused projections, a share of each head rotated,
// and longrope in the models for long texts.

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/hub/settings.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model,
               {.max_positions = 4096, .epsilon = 1e-5, .rotary_share = 1, .first_positions = 4096});
  fields.count_or_null("sliding_window", model.layer.attention.window, 0);
  fields("resid_pdrop", model.layer.dropout, 0);
  fields.expect("attention_bias mlp_bias lm_head_bias", false);
  fields.expect("full_attn_mod interpolate_factor", 1);
  fields.irrelevant("embd_pdrop");  // transformers has the field and does not use it
}

WeightMap weight_map(const LanguageModelConfig& config) {
  const nn::LayerOptions layer = resolved(config.decoder.first());
  const std::string ours = "decoder.layers.#.", theirs = "model.layers.#.";
  return with_rules(concatenated(theirs + "self_attn.qkv_proj", Layout::same,
                                 {{ours + "self_attn.q_proj", layer.heads * layer.d_k},
                                  {ours + "self_attn.k_proj", layer.key_heads * layer.d_k},
                                  {ours + "self_attn.v_proj", layer.key_heads * layer.d_v}}),
                    with_fused_gate(llama_weight_map(config), config));
}

}  // namespace

LanguageFamily phi3_family() {
  return {.model_type = "phi3",
          .classes = {{"Phi3ForCausalLM"}, {"Phi3Model"}},
          .base = llama_base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
