// Mistral's mixtures of experts with latent attention (Mistral AI 2026): DeepSeek's layers, with softmax
// weights of experts and queries that grow with the position.

#include "qkv/models/families/experts/deepseek_family.h"
#include "qkv/models/families/latent/latent_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = routed_layers(model);
  latent_fields(fields, model,
                {.llama = {.max_positions = 1048576, .query_growth = true},
                 .query_rank = 1024,
                 .rank = 256,
                 .plain = 64,
                 .whole_head = true});
  const nn::RotaryScaling& scaling = model.layer.attention.positions.rotary_scaling;
  // Without the object, transformers scales as the first model of the family.
  fields.require("rope_parameters", scaling.kind == nn::RotaryScalingKind::yarn,
                 "an object with the rope_type yarn");
  fields.expect("rope_interleave", true);
  routed_fields(fields, model, mixed, {.count = 128, .per_token = 4, .dense = 0});
}

// The weights of all experts are one tensor.
WeightMap weight_map(const LanguageModelConfig& config) {
  const ExpertLayers mixed = expert_layers(config.decoder);
  const std::string own = "decoder.layers.#.experts.*.", theirs = "model.layers.#.mlp.experts.";
  std::vector<WeightRule> rules = concatenated(theirs + "gate_up_proj", Layout::same,
                                               {{own + "gate", mixed.d_ff}, {own + "fc1", mixed.d_ff}});
  rules.push_back({.ours = own + "fc2", .theirs = theirs + "down_proj"});
  for (WeightRule& rule : rules) rule.experts = mixed.experts.count;
  return with_rules(std::move(rules), routed_latent_weight_map(config));
}

}  // namespace

LanguageFamily mistral4_family() {
  return {.model_type = "mistral4",
          .classes = {{"Mistral4ForCausalLM"}, {"Mistral4Model"}},
          .base = llama_base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
