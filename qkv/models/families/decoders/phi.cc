// Phi-1 and Phi-2 (Gunasekar et al. 2023): attention and feed-forward read one norm in parallel, a share of
// each head is rotated, and all projections have biases.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(
      fields, model,
      {.epsilon = 1e-5, .activation = "gelu_new", .rotary_share = 0.5, .epsilon_field = "layer_norm_eps"});
  fields("resid_pdrop", model.layer.dropout, 0);
  fields("embd_pdrop", model.config.embedding.dropout, 0);
  query_key_layer_norm(fields, model.layer, false);
}

WeightMap weight_map(const LanguageModelConfig& config) {
  return with_rules({{"decoder.layers.#.self_attn.out_proj", "model.layers.#.self_attn.dense"},
                     {"decoder.layers.#.fc1", "model.layers.#.mlp.fc1"},
                     {"decoder.layers.#.fc2", "model.layers.#.mlp.fc2"},
                     {"decoder.layer_norm", "model.final_layernorm"}},
                    with_query_key_layer_norm(llama_weight_map(config)));
}

Described<LanguageModelConfig> base() {
  Described<LanguageModelConfig> model = biased_base();
  model.layer.order = nn::SublayerOrder::parallel_one_norm;
  model.config.logit_bias = true;
  return model;
}

}  // namespace

LanguageFamily phi_family() {
  return {.model_type = "phi",
          .classes = {{"PhiForCausalLM"}, {"PhiModel"}},
          .base = base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
