// Hunyuan's dense models (Tencent 2025): LLaMA's layout, with norms of each head's queries and keys after
// they are rotated, and a larger base of the rotary positions.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model, {.epsilon = 1e-5, .fixed_alpha = true});
  attention_bias(fields, model.layer);
  fields.expect("use_qk_norm use_rotary_pos_emb", true);
  fields.expect("mlp_bias use_cla add_classification_head", false);
  fields.expect("attention_head_dim", model.layer.d_k);
  fields.irrelevant("pretraining_tp eod_token_id org_vocab_size pad_id");  // of training and of text
}

WeightMap weight_map(const LanguageModelConfig& config) {
  return with_rules({{"decoder.layers.#.self_attn.q_norm", "model.layers.#.self_attn.query_layernorm"},
                     {"decoder.layers.#.self_attn.k_norm", "model.layers.#.self_attn.key_layernorm"}},
                    llama_weight_map(config));
}

}  // namespace

LanguageFamily hunyuan_family() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.attention.query_key_norm = nn::QueryKeyNorm::rotated_head;
  return {.model_type = "hunyuan_v1_dense",
          .classes = {{"HunYuanDenseV1ForCausalLM"}, {"HunYuanDenseV1Model"}},
          .base = std::move(model),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
