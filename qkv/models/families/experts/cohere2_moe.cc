// Command A's mixtures of experts (Cohere 2026): Command R7B's parallel sublayers, windows and factor of the
// logits. Layers without a window have no positions, unless they are among the dense ones before those with
// experts.

#include <algorithm>
#include <array>

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/experts/expert_layers.h"

namespace qkv::models {

LanguageFamily cohere2_family();  // decoders/cohere.cc

namespace {

constexpr std::array<std::pair<std::string_view, bool>, 2> kSigmoids{{{"softmax", false}, {"sigmoid", true}}},
    kMeans{{{"average", true}, {"sum", false}}};

// "intermediate_size" is the width of an expert.
void expert_layer_fields(const Fields& fields, nn::LayerOptions& layer, ExpertLayers& mixed, int64_t layers) {
  nn::ExpertOptions& experts = mixed.experts;
  mixed.d_ff = layer.d_ff;
  int64_t shared = experts.shared_d_ff / std::max<int64_t>(mixed.d_ff, 1), dense = mixed.dense_d_ff;
  bool normalise = experts.normalise, mean = experts.shared_mean || shared == 0;
  expert_fields(fields, "num_experts", experts, 8, 2);
  fields("expert_selection_fn", experts.sigmoid, Words<bool>(kSigmoids), false);
  fields("norm_topk_prob", normalise, true);
  fields("num_shared_experts", shared, 0);
  fields("shared_expert_combination_strategy", mean, Words<bool>(kMeans), true);
  fields.count_or_null("prefix_dense_intermediate_size", dense, 0);
  layer_kinds(fields, mixed, layers, 0, true);
  experts.normalise = normalise || !experts.sigmoid;
  experts.shared_d_ff = shared * mixed.d_ff;
  experts.shared_mean = mean && shared > 0;
  mixed.dense_d_ff = dense > 0 ? dense : mixed.d_ff;
}

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  std::vector<nn::LayerOptions>& stack = config.decoder.layers;
  describe_rotary_layer(fields, model);
  ExpertLayers mixed = expert_layers(config.decoder);
  layer.d_ff = mixed.d_ff;
  float rms = layer.norm_kind == nn::NormKind::rms ? layer.epsilon : 0;
  fields.number_or_null("rms_norm_eps", rms, 0);
  layer.norm_kind = rms > 0 ? nn::NormKind::rms : nn::NormKind::layer;
  llama_fields(fields, model,
               {.max_positions = 8192,
                .head_width = 128,
                .epsilon = 1e-5,
                .tied = true,
                .epsilon_field = "layer_norm_eps"});
  if (rms > 0) layer.epsilon = rms;
  attention_bias(fields, layer);
  fields("logit_scale", config.logit_scale, 0.0625);
  expert_layer_fields(fields, layer, mixed, layers);
  const auto dense = [&](int64_t i) { return std::ranges::count(mixed.dense, i) > 0; };
  const auto placed = [&](const nn::LayerOptions& one) {
    return one.attention.positions.kind == nn::PositionKind::rotary;
  };
  // Every how many layers one has no window, among the first dense ones and among the others.
  int64_t first = 1, others = 4, before = 0;
  for (int64_t i = 0; i < layers && !fields.reads(); ++i) {
    if (dense(i) && !placed(stack.at(static_cast<size_t>(i)))) first = 2;
  }
  fields("prefix_dense_sliding_window_pattern", first, 1);
  fields("sliding_window_pattern", others, 4);
  fields.require("prefix_dense_sliding_window_pattern", first >= 1, "at least 1");
  fields.require("sliding_window_pattern", others >= 1, "at least 1");
  if (fields.reads()) set_expert_layers(model, mixed, dense);
  if (fields.reads()) fields("first_k_dense_replace", before, 0);  // even beside "mlp_layer_types"
  sliding_window(fields, model, 4096, [&](int64_t i) {
    return i < before ? (i + 1) % first != 0 : (i - before + 1) % others != 0;
  });
  for (int64_t i = 0; i < std::ssize(stack) && fields.reads(); ++i) {
    nn::AttentionVariant& attention = stack[static_cast<size_t>(i)].attention;
    if (attention.window == 0 && !(dense(i) && first == 1)) attention.positions = {};
  }
}

WeightMap weight_map(const LanguageModelConfig& config) {
  WeightMap map = with_shared_expert(cohere2_family().weight_map(config), "mlp.shared_experts");
  for (WeightRule& rule : expert_weight_map(config, {}).rules) map.rules.push_back(std::move(rule));
  return map;
}

}  // namespace

LanguageFamily cohere2_moe_family() {
  return {.model_type = "cohere2_moe",
          .classes = {{"Cohere2MoeForCausalLM"}, {"Cohere2MoeModel"}},
          .base = cohere2_family().base,
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
