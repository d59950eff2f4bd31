#include "qkv/models/families/experts/expert_layers.h"

#include <algorithm>

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {

void expert_fields(const Fields& fields, const Fields::Key& count, nn::ExpertOptions& experts,
                   int64_t usual_count, int64_t usual_per_token) {
  fields(count, experts.count, usual_count);
  fields.require(count, experts.count >= 1, "at least 1");
  fields("num_experts_per_tok", experts.per_token, usual_per_token);
  fields.irrelevant("output_router_logits router_aux_loss_coef router_jitter_noise");
}

void layer_kinds(const Fields& fields, ExpertLayers& layers, int64_t count, int64_t usual, bool counted) {
  std::vector<std::string> kinds;
  for (int64_t i = 0; i < count && !fields.reads(); ++i)
    kinds.emplace_back(std::ranges::count(layers.dense, i) > 0 ? "dense" : "sparse");
  fields("mlp_layer_types", kinds);
  if (!fields.reads()) return;
  int64_t first = usual;
  if (fields.absent("mlp_layer_types")) {
    counted ? fields("first_k_dense_replace", first, usual) : fields.expect("first_k_dense_replace", usual);
    for (int64_t i = 0; i < count; ++i) kinds.emplace_back(i < first ? "dense" : "sparse");
  }
  fields.irrelevant("first_k_dense_replace");  // repeats the list
  const auto known = [](const std::string& kind) { return kind == "dense" || kind == "sparse"; };
  fields.require("mlp_layer_types", std::ssize(kinds) == count && std::ranges::all_of(kinds, known),
                 concat(count, " kinds, dense or sparse"));
  layers.dense.clear();
  for (int64_t i = 0; i < std::ssize(kinds); ++i) {
    if (kinds[static_cast<size_t>(i)] == "dense") layers.dense.push_back(i);
  }
}

ExpertLayers expert_layers(const nn::StackOptions& stack) {
  ExpertLayers found;
  for (int64_t i = 0; i < stack.size(); ++i) {
    const nn::LayerOptions& layer = stack.layers[static_cast<size_t>(i)];
    if (layer.experts.count == 0) {
      found.dense.push_back(i);
      found.dense_d_ff = layer.d_ff;
    } else {
      found.experts = layer.experts;
      found.d_ff = layer.d_ff;
    }
  }
  return found;
}

void set_expert_layers(Described<LanguageModelConfig>& model, const ExpertLayers& layers,
                       const std::function<bool(int64_t)>& dense) {
  model.config.decoder.layers = nn::alike(model.layers, model.layer);
  for (int64_t i = 0; i < model.layers; ++i) {
    nn::LayerOptions& layer = model.config.decoder.layers[static_cast<size_t>(i)];
    layer.d_ff = dense(i) ? layers.dense_d_ff : layers.d_ff;
    layer.experts = dense(i) ? nn::ExpertOptions() : layers.experts;
  }
}

void qwen_expert_layers(const Fields& fields, Described<LanguageModelConfig>& model, ExpertLayers& layers,
                        const QwenDefaults& usual) {
  fields("moe_intermediate_size", layers.d_ff, usual.d_ff);
  expert_fields(fields, {"num_experts", "num_local_experts"}, layers.experts, usual.count, usual.per_token);
  fields("norm_topk_prob", layers.experts.normalise, usual.normalise);
  fields("mlp_only_layers", layers.dense);
  if (fields.absent("mlp_only_layers")) layers.dense = usual.dense;
  int64_t step = 1;
  fields("decoder_sparse_step", step, 1);
  fields.require("decoder_sparse_step", step >= 1, "at least 1");
  if (!fields.reads()) return;
  layers.dense_d_ff = model.layer.d_ff;
  set_expert_layers(model, layers, [&](int64_t i) {
    return (i + 1) % step != 0 || std::ranges::find(layers.dense, i) != layers.dense.end();
  });
}

WeightMap expert_weight_map(const LanguageModelConfig& config, const ExpertNames& names) {
  WeightMap map = llama_weight_map(config);
  const std::string ours = "decoder.layers.#.", theirs = "model.layers.#.";
  const std::string own = ours + "experts.*.", expert = theirs + names.experts;
  map.rules.push_back({ours + "router", theirs + names.router});
  map.rules.push_back({own + "gate", expert + names.gate});
  map.rules.push_back({own + "fc1", expert + names.up});
  map.rules.push_back({own + "fc2", expert + names.down});
  return map;
}

WeightMap with_shared_expert(WeightMap map, const std::string& name) {
  const std::string ours = "decoder.layers.#.shared_expert.", theirs = concat("model.layers.#.", name, ".");
  return with_rules({{ours + "gate", theirs + "gate_proj"},
                     {ours + "fc1", theirs + "up_proj"},
                     {ours + "fc2", theirs + "down_proj"}},
                    std::move(map));
}

}  // namespace qkv::models
