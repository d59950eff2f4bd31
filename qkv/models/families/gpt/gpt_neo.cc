// GPT-Neo (Black et al. 2021): GPT-2's blocks with separate projections, scores without a factor, and a
// window in some layers.

#include "qkv/models/families/gpt/gpt2_family.h"

namespace qkv::models {
namespace {

// "attention_types": [[["global", "local"], 12]] is both kinds in turn, 12 times.
std::vector<std::string> read_kinds(const ConfigReader& reader, int64_t layers) {
  std::vector<std::string> kinds;
  const auto list = reader.find("attention_types");
  if (!list) reader.reject("attention_types", "a list of kinds and how often they repeat");
  for (const JsonValue& item : list->items()) {
    const std::vector<JsonValue> pair = item.items();
    if (pair.size() != 2) item.fail("kinds, and how often they repeat");
    const std::vector<JsonValue> names = pair[0].items();
    for (int64_t i = pair[1].integer(1, nn::kMaxLayers); i > 0 && std::ssize(kinds) <= layers; --i) {
      for (const JsonValue& name : names) kinds.push_back(name.string());
    }
  }
  return kinds;
}

void layer_kinds(const Fields& fields, Described<LanguageModelConfig>& model) {
  std::vector<nn::LayerOptions>& stack = model.config.decoder.layers;
  std::vector<std::string> kinds;
  int64_t window = 256;
  for (const nn::LayerOptions& layer : stack) {
    if (layer.attention.window > 0) window = layer.attention.window;
    kinds.emplace_back(layer.attention.window > 0 ? "local" : "global");
  }
  fields("window_size", window, window);
  fields.require("window_size", window >= 1, "at least 1");
  if (!fields.reads()) return fields.writer()->repeated("attention_types", kinds, 1);
  fields.irrelevant("attention_layers attention_types");  // the former repeats the latter
  if (model.layers == 0) return;                          // in a survey
  kinds = read_kinds(*fields.reader(), model.layers);
  stack = nn::alike(model.layers, model.layer);
  fields.require("attention_types", kinds.size() == stack.size(), concat(model.layers, " kinds"));
  for (size_t i = 0; i < std::min(kinds.size(), stack.size()); ++i) {
    fields.require("attention_types", kinds[i] == "global" || kinds[i] == "local", "global or local");
    stack[i].attention.window = kinds[i] == "local" ? window : 0;
  }
}

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  fields("max_position_embeddings", config.max_positions, 2048);
  fields("hidden_size", layer.d_model);
  fields("num_layers", layers);
  fields("num_heads", layer.heads);
  fields("intermediate_size", layer.d_ff, 4 * layer.d_model);
  fields("activation_function", layer.activation, "gelu_new");
  fields("layer_norm_epsilon", layer.epsilon, 1e-5);
  fields("resid_dropout", layer.dropout, 0);
  fields("embed_dropout", config.embedding.dropout, 0);
  fields("attention_dropout", layer.attention_dropout, 0);
  fields("tie_word_embeddings", config.tied, true);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
  fields.irrelevant(
      "classifier_dropout summary_activation summary_first_dropout summary_type summary_use_proj "
      "summary_proj_to_labels");
  config.embedding.positions.max_positions = config.max_positions;
  layer_kinds(fields, model);
}

WeightMap weight_map(const LanguageModelConfig& config) {
  const std::string ours = "decoder.layers.#.self_attn.", theirs = "transformer.h.#.attn.attention.";
  return with_rules({{ours + "q_proj", theirs + "q_proj"},
                     {ours + "k_proj", theirs + "k_proj"},
                     {ours + "v_proj", theirs + "v_proj"},
                     {ours + "out_proj", theirs + "out_proj"}},
                    gpt2_weight_map(config));
}

Described<LanguageModelConfig> base() {
  Described<LanguageModelConfig> model = gpt2_base();
  model.layer.attention = {.bias = {.query = false, .key = false, .value = false}, .scale = 1.0f};
  return model;
}

}  // namespace

LanguageFamily gpt_neo_family() {
  return {.model_type = "gpt_neo",
          .classes = {{"GPTNeoForCausalLM"}, {"GPTNeoModel"}},
          .base = base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
