// Llama 4's language models (Meta 2025), for texts up to the length of a chunk: layers with rotary positions
// attend within chunks of tokens, and queries of the others grow with the position beyond "floor_scale".
// Experts read their tokens multiplied by a sigmoid.

#include <algorithm>

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/experts/expert_layers.h"

namespace qkv::models {
namespace {

constexpr int64_t kChunk = 8192;

// "moe_layers": the layers with experts. Sets layers.dense.
void expert_layer_list(const Fields& fields, ExpertLayers& mixed, int64_t layers) {
  std::vector<int64_t> with;
  for (int64_t i = 0; i < layers && !fields.reads(); ++i) {
    if (std::ranges::count(mixed.dense, i) == 0) with.push_back(i);
  }
  fields("moe_layers", with);
  if (!fields.reads()) return;
  int64_t step = 1;
  fields("interleave_moe_layer_step", step, 1);
  fields.require("interleave_moe_layer_step", step >= 1, "at least 1");
  for (int64_t i = step - 1; i < layers && fields.absent("moe_layers"); i += std::max<int64_t>(step, 1))
    with.push_back(i);
  mixed.dense.clear();
  for (int64_t i = 0; i < layers; ++i) {
    if (std::ranges::count(with, i) == 0) mixed.dense.push_back(i);
  }
}

// "no_rope_layers", in which 0 is a layer without positions.
std::vector<bool> rotated_layers(const Fields& fields, const std::vector<nn::LayerOptions>& stack,
                                 int64_t layers) {
  std::vector<bool> rotated;
  for (const nn::LayerOptions& one : stack)
    rotated.push_back(one.attention.positions.kind == nn::PositionKind::rotary);
  fields("no_rope_layers", rotated);
  const bool usual = fields.reads() && rotated.empty();
  int64_t interval = 4;
  if (fields.reads()) fields("no_rope_layer_interval", interval, interval);
  fields.require("no_rope_layer_interval", interval >= 1, "at least 1");
  for (int64_t i = 0; i < layers && usual; ++i)
    rotated.push_back((i + 1) % std::max<int64_t>(interval, 1) != 0);
  fields.require("no_rope_layers", std::ssize(rotated) >= layers, concat("at least ", layers, " flags"));
  rotated.resize(static_cast<size_t>(std::max<int64_t>(layers, 0)));
  return rotated;
}

// Texts for which a chunk is all that there is, and for which queries do not grow.
void limits(const Fields& fields, LanguageModelConfig& config, const std::vector<bool>& rotated) {
  const bool some = std::ranges::count(rotated, true) > 0, others = std::ranges::count(rotated, false) > 0;
  int64_t chunk = std::max(config.max_positions, kChunk), scale = std::max(config.max_positions + 1, kChunk);
  bool grows = true;
  fields.count_or_null("attention_chunk_size", chunk, kChunk);
  fields("floor_scale", scale, kChunk);
  fields("attn_temperature_tuning", grows, true);
  fields.require("floor_scale", scale >= 2, "at least 2");
  fields.irrelevant("attn_scale");  // of queries beyond
  fields.irrelevant("for_llm_compressor");
  std::vector<std::string> kinds;
  if (fields.reads()) fields("layer_types", kinds);
  for (size_t i = 0; i < std::min(kinds.size(), rotated.size()); ++i)
    fields.require("layer_types",
                   kinds[i] == (rotated[i] && chunk > 0 ? "chunked_attention" : "full_attention"),
                   "chunked_attention in the layers with positions, full_attention in others");
  if (some && chunk > 0) config.max_positions = std::min(config.max_positions, chunk);
  if (others && grows) config.max_positions = std::min(config.max_positions, scale - 1);
}

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  std::vector<nn::LayerOptions>& stack = config.decoder.layers;
  describe_rotary_layer(fields, model);
  ExpertLayers mixed = expert_layers(config.decoder);
  int64_t dense = mixed.dense_d_ff > 0 ? mixed.dense_d_ff : mixed.d_ff;
  layer.d_ff = mixed.d_ff;
  llama_fields(
      fields, model,
      {.key_heads = 8, .max_positions = 131072, .head_width = 128, .epsilon = 1e-5, .rotary_base = 500000});
  attention_bias(fields, layer);
  expert_fields(fields, "num_local_experts", mixed.experts, 16, 1);
  fields("intermediate_size_mlp", dense, 16384);
  expert_layer_list(fields, mixed, layers);
  bool normed = layer.attention.query_key_norm == nn::QueryKeyNorm::plain_head;
  fields("use_qk_norm", normed, true);
  const std::vector<bool> rotated = rotated_layers(fields, stack, layers);
  limits(fields, config, rotated);
  if (!fields.reads()) return;
  layer.attention.query_key_norm = normed ? nn::QueryKeyNorm::plain_head : nn::QueryKeyNorm::none;
  mixed.d_ff = mixed.experts.shared_d_ff = layer.d_ff;
  mixed.dense_d_ff = dense;
  mixed.experts.normalise = false;
  mixed.experts.sigmoid = mixed.experts.weighs_inputs = true;
  set_expert_layers(model, mixed, [&](int64_t i) { return std::ranges::count(mixed.dense, i) > 0; });
  for (size_t i = 0; i < stack.size(); ++i) {
    if (rotated[i]) continue;
    stack[i].attention.positions = {};
    stack[i].attention.query_key_norm = nn::QueryKeyNorm::none;
  }
}

WeightMap weight_map(const LanguageModelConfig& config) {
  const ExpertLayers mixed = expert_layers(config.decoder);
  const std::string ours = "decoder.layers.#.", theirs = "model.layers.#.feed_forward.",
                    own = ours + "experts.*.";
  std::vector<WeightRule> rules = concatenated(theirs + "experts.gate_up_proj", Layout::transposed,
                                               {{own + "gate", mixed.d_ff}, {own + "fc1", mixed.d_ff}});
  rules.push_back({own + "fc2", theirs + "experts.down_proj", Layout::transposed});
  for (WeightRule& rule : rules) rule.experts = mixed.experts.count;
  rules.insert(rules.end(), {{ours + "router", theirs + "router"},
                             {ours + "gate", theirs + "gate_proj"},
                             {ours + "fc1", theirs + "up_proj"},
                             {ours + "fc2", theirs + "down_proj"}});
  return with_rules(std::move(rules), with_shared_expert(with_pairs(llama_weight_map(config), config),
                                                         "feed_forward.shared_expert"));
}

}  // namespace

LanguageFamily llama4_text_family() {
  return {.model_type = "llama4_text",
          .classes = {{"Llama4ForCausalLM"}, {"Llama4TextModel"}},
          .base = llama_base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
