#include "qkv/models/families/experts/deepseek_family.h"

#include <algorithm>

#include "qkv/models/families/latent/latent_family.h"

namespace qkv::models {

ExpertLayers routed_layers(Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = expert_layers(model.config.decoder);
  model.layer.d_ff = mixed.dense_d_ff > 0 ? mixed.dense_d_ff : mixed.d_ff;
  return mixed;
}

void routed_fields(const Fields& fields, Described<LanguageModelConfig>& model, ExpertLayers& mixed,
                   const RoutedDefaults& usual) {
  nn::ExpertOptions& experts = mixed.experts;
  // At least 1, even if no layer has experts.
  int64_t shared = std::max<int64_t>(experts.shared_d_ff / mixed.d_ff, 1), first = std::ssize(mixed.dense);
  expert_fields(fields, usual.count_field, experts, usual.count, usual.per_token);
  fields("moe_intermediate_size", mixed.d_ff, usual.d_ff);
  fields(usual.scale_field, experts.scale, usual.scale);
  if (usual.shared > 0) {
    fields(usual.shared_field, shared, usual.shared);
    fields.require(usual.shared_field, shared >= 1, "at least 1");
  } else {
    shared = 0;
  }
  if (usual.grouped) {
    fields("n_group", experts.groups, fields.is_null("n_group") ? 1 : usual.groups);
    fields("topk_group", experts.group_choices, fields.is_null("topk_group") ? 1 : usual.choices);
    fields("norm_topk_prob", experts.normalise, usual.normalise);
  }
  if (usual.listed) {
    layer_kinds(fields, mixed, model.layers, usual.dense, usual.counted);
  } else {
    fields("first_k_dense_replace", first, usual.dense);
    mixed.dense.clear();
    for (int64_t i = 0; i < std::min(first, model.layers); ++i) mixed.dense.push_back(i);
  }
  fields.expect("moe_layer_freq", 1);
  // Of training, of parallelisation, and of layers that predict later tokens, which are not read.
  fields.irrelevant("aux_loss_alpha seq_aux ep_size num_nextn_predict_layers num_mtp_layers pretraining_tp");
  if (!fields.reads()) return;
  experts.shared_d_ff = shared * mixed.d_ff;
  mixed.dense_d_ff = model.layer.d_ff;
  set_expert_layers(model, mixed, [&](int64_t i) { return std::ranges::count(mixed.dense, i) > 0; });
}

void sigmoid_fields(const Fields& fields, Described<LanguageModelConfig>& model, ExpertLayers& mixed,
                    const RoutedDefaults& usual) {
  mixed.experts.sigmoid = mixed.experts.correction_bias = true;
  fields.expect("topk_method", "noaux_tc");
  fields.expect("scoring_func", "sigmoid");
  routed_fields(fields, model, mixed, usual);
}

WeightMap routed_weight_map(const LanguageModelConfig& config) {
  return with_rules({{"decoder.layers.#.correction", "model.layers.#.mlp.gate"}},
                    with_shared_expert(expert_weight_map(config, {}), "mlp.shared_experts"));
}

WeightMap routed_latent_weight_map(const LanguageModelConfig& config) {
  return latent_weight_map(config, true, routed_weight_map(config));
}

}  // namespace qkv::models
