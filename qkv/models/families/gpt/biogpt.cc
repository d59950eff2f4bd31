// BioGPT (Luo et al. 2022): OPT's blocks with scaled embeddings; position 0 is row 2 of the table.

#include <cmath>

#include "qkv/models/families/gpt/gpt2_family.h"

namespace qkv::models {
namespace {

constexpr int64_t kFirstRow = 2;  // a constant in transformers, not a field

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  fields("max_position_embeddings", config.max_positions, 1024);
  fields("hidden_size", layer.d_model);
  fields("num_hidden_layers", layers);
  fields("num_attention_heads", layer.heads);
  fields("intermediate_size", layer.d_ff);
  fields("hidden_act", layer.activation, "gelu");
  fields("hidden_dropout_prob", layer.dropout, 0.1);
  fields("attention_probs_dropout_prob", layer.attention_dropout, 0.1);
  fields("tie_word_embeddings", config.tied, true);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
  bool scaled = config.embedding.factor != 1;
  fields("scale_embedding", scaled, true);
  config.embedding.factor = scaled ? std::sqrt(static_cast<float>(layer.d_model)) : 1;
  // transformers does not read the epsilon: it is always 1e-5. The others are of training.
  fields.irrelevant("layer_norm_eps layerdrop activation_dropout");
  config.embedding.positions.max_positions = config.max_positions + kFirstRow;
}

WeightMap weight_map(const LanguageModelConfig& config) {
  WeightMap map{.prefix = "biogpt."};
  for (const char* part : {"self_attn_layer_norm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                           "self_attn.out_proj", "final_layer_norm", "fc1", "fc2"})
    map.rules.push_back({concat("decoder.layers.#.", part), concat("biogpt.layers.#.", part)});
  map.rules.insert(map.rules.end(), {{.ours = "embed_tokens",
                                      .theirs = "biogpt.embed_tokens",
                                      .also = tied_head(config, "output_projection")},
                                     {"embed_positions", "biogpt.embed_positions"},
                                     {"decoder.layer_norm", "biogpt.layer_norm"},
                                     {"lm_head", "output_projection"}});
  return map;
}

Described<LanguageModelConfig> base() {
  Described<LanguageModelConfig> model = gpt2_base();
  model.config.embedding.positions.first_row = kFirstRow;
  return model;
}

}  // namespace

LanguageFamily biogpt_family() {
  return {.model_type = "biogpt",
          .classes = {{"BioGptForCausalLM"}, {"BioGptModel"}},
          .base = base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
