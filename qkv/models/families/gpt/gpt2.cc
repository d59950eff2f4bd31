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
  const int64_t d = config.embedding.d_model;
  return with_rules(concatenated("transformer.h.#.attn.c_attn", Layout::transposed,
                                 {{"decoder.layers.#.self_attn.q_proj", d},
                                  {"decoder.layers.#.self_attn.k_proj", d},
                                  {"decoder.layers.#.self_attn.v_proj", d}}),
                    gpt2_weight_map(config, Layout::transposed));
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
