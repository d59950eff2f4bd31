// GPT-J (Wang and Komatsuzaki 2021) and CodeGen (Nijkamp et al. 2022): attention and feed-forward read one
// norm in parallel; the first features of each head are rotated, pairs side by side; the logits have a bias.

#include "qkv/models/families/gpt/gpt2_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  gpt2_fields(fields, model, {.tied = false, .dropout = 0});
  nn::LayerOptions& layer = model.layer;
  const int64_t width = layer.heads > 0 ? layer.d_model / layer.heads : 0;
  int64_t& features = layer.attention.positions.rotary_features;
  if (features == 0) features = width;
  fields("rotary_dim", features, 64);
  fields.require("rotary_dim", features >= 2 && features % 2 == 0 && features <= width,
                 concat("an even number up to ", width));
  if (features == width) features = 0;
  fields.expect("rotary", true);
}

void codegen_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  table(fields, model);
  fields.require("n_head", model.layer.heads % 4 == 0, "a multiple of 4");
}

WeightMap weight_map(const LanguageModelConfig& config) {
  const std::string ours = "decoder.layers.#.", theirs = "transformer.h.#.";
  const nn::LayerOptions& layer = config.decoder.first();
  const int64_t all = config.embedding.d_model / layer.heads;
  const int64_t rotated = layer.attention.positions.rotary_features;
  const PairedHeads paired{.heads = layer.heads, .rotated = rotated > 0 ? rotated : all};
  WeightMap map =
      with_rules({{.ours = ours + "self_attn.q_proj", .theirs = theirs + "attn.q_proj", .paired = paired},
                  {.ours = ours + "self_attn.k_proj", .theirs = theirs + "attn.k_proj", .paired = paired},
                  {ours + "self_attn.v_proj", theirs + "attn.v_proj"},
                  {ours + "self_attn.out_proj", theirs + "attn.out_proj"},
                  {ours + "fc1", theirs + "mlp.fc_in"},
                  {ours + "fc2", theirs + "mlp.fc_out"}},
                 gpt2_weight_map(config));
  map.computed.insert(map.computed.end(), {"attn.causal_mask", "embed_positions"});
  return map;
}

// Queries, values and keys are fused in each of four parts of the heads.
WeightMap codegen_weight_map(const LanguageModelConfig& config) {
  const std::string ours = "decoder.layers.#.self_attn.";
  const int64_t d = config.embedding.d_model;
  WeightMap map = weight_map(config);
  std::vector<WeightRule> fused =
      concatenated("transformer.h.#.attn.qkv_proj", Layout::same,
                   {{ours + "q_proj", d}, {ours + "v_proj", d}, {ours + "k_proj", d}}, 4);
  fused[0].paired = fused[2].paired = map.rules[0].paired;
  return with_rules(std::move(fused), std::move(map));
}

Described<LanguageModelConfig> base() {
  Described<LanguageModelConfig> model = gpt2_base();
  model.config.embedding.positions = {};
  model.config.logit_bias = true;
  model.layer.order = nn::SublayerOrder::parallel_one_norm;
  model.layer.attention = {.bias = nn::ProjectionBiases::all(false),
                           .positions = {.kind = nn::PositionKind::rotary}};
  return model;
}

}  // namespace

LanguageFamily gptj_family() {
  return {.model_type = "gptj",
          .classes = {{"GPTJForCausalLM"}, {"GPTJModel"}},
          .base = base(),
          .table = table,
          .weight_map = weight_map};
}

LanguageFamily codegen_family() {
  return {.model_type = "codegen",
          .classes = {{"CodeGenForCausalLM"}, {"CodeGenModel"}},
          .base = base(),
          .table = codegen_table,
          .weight_map = codegen_weight_map};
}

}  // namespace qkv::models
