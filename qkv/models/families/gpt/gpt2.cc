// GPT-2 (Radford et al. 2019): pre-norm, learned positions, a fused projection of queries, keys and values,
// and transposed weights ([inputs, outputs], as in TensorFlow's convolutions of width 1).

#include "qkv/models/families/gpt/gpt2_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  gpt2_fields(fields, model);
  fields.expect("scale_attn_by_inverse_layer_idx", false);
  fields.irrelevant("reorder_and_upcast_attn");  // of half precision
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
          .base = gpt2_base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
