// Granite's mixtures of experts (IBM 2024): Granite's factors; the weights of all experts as one tensor; in
// some models one more expert, which all tokens use. The windowed ones have the windowed Granite's attention.

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/experts/expert_layers.h"

namespace qkv::models {

LanguageFamily granite_family();  // decoders/granite.cc
LanguageFamily granite_swa_family();

namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  granite_family().table(fields, model);
  expert_fields(fields, "num_local_experts", model.layer.experts, 8, 2);
}

void shared_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  table(fields, model);
  fields("shared_intermediate_size", model.layer.experts.shared_d_ff, 1024);
}

// The stack is set after all fields of its layers.
void swa_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  expert_fields(fields, "num_local_experts", model.layer.experts, 8, 2);
  fields("shared_intermediate_size", model.layer.experts.shared_d_ff, 0);
  granite_swa_family().table(fields, model);
}

// The names of the tensors of all experts; transformers wrote others after the first two families.
struct Names {
  const char *router = "router.layer", *inputs = "input_linear.weight", *outputs = "output_linear.weight";
};

WeightMap weight_map_of(const LanguageModelConfig& config, const Names& names) {
  const nn::LayerOptions& layer = config.decoder.first();
  const std::string own = "decoder.layers.#.experts.*.", theirs = "model.layers.#.block_sparse_moe.";
  WeightMap map = llama_weight_map(config);
  map.rules.push_back({"decoder.layers.#.router", theirs + names.router});
  std::vector<WeightRule> rules = concatenated(theirs + names.inputs, Layout::same,
                                               {{own + "gate", layer.d_ff}, {own + "fc1", layer.d_ff}});
  rules.push_back({.ours = own + "fc2", .theirs = theirs + names.outputs});
  for (WeightRule& rule : rules) {
    rule.experts = layer.experts.count;
    map.rules.push_back(std::move(rule));
  }
  return map;
}

WeightMap weight_map(const LanguageModelConfig& config) { return weight_map_of(config, {}); }

WeightMap with_shared(WeightMap map, const LanguageModelConfig& config) {
  const std::string ours = "decoder.layers.#.shared_expert.", theirs = "model.layers.#.shared_mlp.";
  const int64_t width = config.decoder.first().experts.shared_d_ff;
  return with_rules({{ours + "fc2", theirs + "output_linear"}},
                    with_rules(concatenated(theirs + "input_linear", Layout::same,
                                            {{ours + "gate", width}, {ours + "fc1", width}}),
                               std::move(map)));
}

WeightMap shared_weight_map(const LanguageModelConfig& config) {
  return with_shared(weight_map(config), config);
}

WeightMap swa_weight_map(const LanguageModelConfig& config) {
  return with_rules({{"decoder.layers.#.self_attn", "model.layers.#.self_attn"}},  // sinks
                    with_shared(weight_map_of(config, {.router = "router",
                                                       .inputs = "experts.gate_up_proj",
                                                       .outputs = "experts.down_proj"}),
                                config));
}

}  // namespace

LanguageFamily granitemoe_swa_family() {
  return {.model_type = "granitemoe_swa",
          .classes = {{"GraniteMoeSWAForCausalLM"}, {"GraniteMoeSWAModel"}},
          .base = granite_swa_family().base,
          .table = swa_table,
          .weight_map = swa_weight_map};
}

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
