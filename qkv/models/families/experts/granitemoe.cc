// Granite's mixtures of experts (IBM 2024): Granite's factors; the weights of all experts as one tensor; in
// some models one more expert, which all tokens use.

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/experts/expert_layers.h"

namespace qkv::models {

LanguageFamily granite_family();  // decoders/granite.cc

namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  granite_family().table(fields, model);
  expert_fields(fields, "num_local_experts", model.layer.experts, 8, 2);
}

void shared_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  table(fields, model);
  fields("shared_intermediate_size", model.layer.experts.shared_d_ff, 1024);
}

WeightMap weight_map(const LanguageModelConfig& config) {
  const nn::LayerOptions& layer = config.decoder.first();
  const std::string own = "decoder.layers.#.experts.*.", theirs = "model.layers.#.block_sparse_moe.";
  WeightMap map = llama_weight_map(config);
  map.rules.push_back({"decoder.layers.#.router", theirs + "router.layer"});
  std::vector<WeightRule> rules = concatenated(theirs + "input_linear.weight", Layout::same,
                                               {{own + "gate", layer.d_ff}, {own + "fc1", layer.d_ff}});
  rules.push_back({.ours = own + "fc2", .theirs = theirs + "output_linear.weight"});
  for (WeightRule& rule : rules) {
    rule.experts = layer.experts.count;
    map.rules.push_back(std::move(rule));
  }
  return map;
}

WeightMap shared_weight_map(const LanguageModelConfig& config) {
  const std::string ours = "decoder.layers.#.shared_expert.", theirs = "model.layers.#.shared_mlp.";
  const int64_t width = config.decoder.first().experts.shared_d_ff;
  return with_rules({{ours + "fc2", theirs + "output_linear"}},
                    with_rules(concatenated(theirs + "input_linear", Layout::same,
                                            {{ours + "gate", width}, {ours + "fc1", width}}),
                               weight_map(config)));
}

}  // namespace

LanguageFamily granitemoeshared_family() {
  return {.model_type = "granitemoeshared",
          .classes = {{"GraniteMoeSharedForCausalLM"}, {"GraniteMoeSharedModel"}},
          .base = llama_base(),
          .table = shared_table,
          .weight_map = shared_weight_map};
}

LanguageFamily granitemoe_family() {
  return {.model_type = "granitemoe",
          .classes = {{"GraniteMoeForCausalLM"}, {"GraniteMoeModel"}},
          .base = llama_base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
