// GPT-2 (Radford et al. 2019): pre-norm, learned positions, a fused projection of queries, keys and values,
// and transposed weights ([inputs, outputs], as in TensorFlow's convolutions of width 1).

#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  fields("n_positions", config.max_positions);
  fields("n_embd", layer.d_model);
  fields("n_layer", layers);
  fields("n_head", layer.heads);
  fields("n_inner", layer.d_ff, 4 * layer.d_model);
  fields("activation_function", layer.activation, "gelu_new");
  fields("layer_norm_epsilon", layer.epsilon, 1e-5);
  fields("resid_pdrop", layer.dropout, 0.1);
  fields("embd_pdrop", config.embedding.dropout, 0.1);
  fields("attn_pdrop", layer.attention_dropout, 0.1);
  fields("tie_word_embeddings", config.tied, true);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
  fields.expect("scale_attn_weights", true);
  fields.expect("scale_attn_by_inverse_layer_idx", false);
  // n_ctx repeats n_positions; upcasting concerns half precision; summaries belong to a head that is not
  // implemented.
  fields.irrelevant(
      "n_special predict_special_tokens n_ctx reorder_and_upcast_attn summary_activation "
      "summary_first_dropout summary_type summary_use_proj summary_proj_to_labels");
  config.embedding.positions.max_positions = config.max_positions;
}

WeightMap weight_map(const LanguageModelConfig& config) {
  constexpr Layout kTurned = Layout::transposed;
  const int64_t d = config.embedding.d_model;
  WeightMap map{.rules = concatenated("transformer.h.#.attn.c_attn", kTurned,
                                      {{"decoder.layers.#.self_attn.q_proj", d},
                                       {"decoder.layers.#.self_attn.k_proj", d},
                                       {"decoder.layers.#.self_attn.v_proj", d}}),
                .prefix = "transformer.",
                .computed = {".attn.bias", ".attn.masked_bias"}};  // the causal mask
  map.rules.insert(map.rules.end(),
                   {{.ours = "embed_tokens", .theirs = "transformer.wte", .also = tied_head(config)},
                    {"embed_positions", "transformer.wpe"},
                    {"decoder.layers.#.self_attn_layer_norm", "transformer.h.#.ln_1"},
                    {"decoder.layers.#.self_attn.out_proj", "transformer.h.#.attn.c_proj", kTurned},
                    {"decoder.layers.#.final_layer_norm", "transformer.h.#.ln_2"},
                    {"decoder.layers.#.fc1", "transformer.h.#.mlp.c_fc", kTurned},
                    {"decoder.layers.#.fc2", "transformer.h.#.mlp.c_proj", kTurned},
                    {"decoder.layer_norm", "transformer.ln_f"},
                    {"lm_head", "lm_head"}});
  return map;
}

}  // namespace

LanguageFamily gpt2_family() {
  return {.model_type = "gpt2",
          .classes = {{"GPT2LMHeadModel"}, {"GPT2DoubleHeadsModel"}, {"GPT2Model"}},
          .base = {.config = {.embedding = {.positions = {.kind = nn::PositionKind::learned}},
                              .decoder = {.final_norm = true}},
                   .layer = {.norm = nn::NormPlacement::pre}},
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
