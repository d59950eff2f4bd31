#include "qkv/models/families/gpt/fairseq_family.h"

#include <cmath>

namespace qkv::models {

WeightMap fairseq_weight_map(const LanguageModelConfig& config, const FairseqNames& names) {
  WeightMap map{.prefix = names.prefix, .computed = {"embed_positions.weights"}};
  for (const char* part : {"self_attn_layer_norm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                           "self_attn.out_proj", "final_layer_norm", "fc1", "fc2"})
    map.rules.push_back({concat("decoder.layers.#.", part), concat(names.decoder, "layers.#.", part)});
  map.rules.insert(map.rules.end(), {{.ours = "embed_tokens",
                                      .theirs = names.decoder + "embed_tokens",
                                      .also = tied_head(config, names.head)},
                                     {"embed_positions", names.decoder + "embed_positions"},
                                     {"decoder.layer_norm", names.decoder + names.final_norm},
                                     {"lm_head", names.head}});
  return map;
}

void scaled_embedding(const Fields& fields, Described<LanguageModelConfig>& model) {
  float& factor = model.config.embedding.factor;
  bool scaled = factor != 1;
  fields("scale_embedding", scaled, true);
  factor = scaled ? std::sqrt(static_cast<float>(model.layer.d_model)) : 1;
}

Described<LanguageModelConfig> fairseq_base(nn::PositionKind positions) {
  return {.config = {.embedding = {.positions = {.kind = positions, .first_row = kFairseqFirstRow}},
                     .decoder = {.final_norm = true}},
          .layer = {.norm = nn::NormPlacement::pre}};
}

}  // namespace qkv::models
