// LLaMA (Touvron et al. 2023) and models of the same layout, with optional biases; EXAONE 3 (LG 2024), with
// other names.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model);
  attention_bias(fields, model.layer);
  fields("mlp_bias", model.layer.feed_forward_bias, false);
  // A parallelisation setting that does not affect results; fields repeated in SmolLM's folders.
  fields.irrelevant("pretraining_tp is_llama_config rope_interleaved");
}

void internlm3_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model, {.key_heads = 2, .max_positions = 32768, .head_width = 128, .epsilon = 1e-5});
  bool bias = model.layer.feed_forward_bias;
  fields({"attention_bias", "qkv_bias"}, bias, false);
  fields({"mlp_bias", "bias"}, model.layer.feed_forward_bias, false);
  fields.require("attention_bias", bias == model.layer.feed_forward_bias, "mlp_bias");
  model.layer.attention.bias = nn::ProjectionBiases::all(bias);
}

// The older names are those of its first program.
void exaone_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model,
               {.key_heads = 8,
                .max_positions = 4096,
                .epsilon = 1e-5,
                .rotary_base = 500000,
                .activation_field = nullptr,
                .layers_field = {"num_hidden_layers", "num_layers"},
                .epsilon_field = {"rms_norm_eps", "layer_norm_epsilon"}});
  fields({"hidden_act", "activation_function"}, model.layer.activation, "silu");
  attention_bias(fields, model.layer);
  fields("mlp_bias", model.layer.feed_forward_bias, false);
  fields("embed_dropout", model.config.embedding.dropout, 0);
}

WeightMap exaone_map(const LanguageModelConfig& config) {
  const std::string ours = "decoder.layers.#.", theirs = "transformer.h.#.",
                    attention = theirs + "attn.attention.";
  WeightMap map{.rules = {{.ours = "embed_tokens", .theirs = "transformer.wte", .also = tied_head(config)},
                          {ours + "self_attn_layer_norm", theirs + "ln_1"},
                          {ours + "self_attn.out_proj", attention + "out_proj"},
                          {ours + "final_layer_norm", theirs + "ln_2"},
                          {ours + "gate", theirs + "mlp.c_fc_0"},
                          {ours + "fc1", theirs + "mlp.c_fc_1"},
                          {ours + "fc2", theirs + "mlp.c_proj"},
                          {"decoder.layer_norm", "transformer.ln_f"},
                          {"lm_head", "lm_head"}},
                .prefix = "transformer.",
                .computed = {"rotary.inv_freq"}};
  for (const char* part : {"q_proj", "k_proj", "v_proj"})
    map.rules.push_back({concat(ours, "self_attn.", part), attention + part});
  return map;
}

void iquestcoder_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model, {.key_heads = 8, .max_positions = 131072, .head_width = 128, .epsilon = 1e-5});
  attention_bias(fields, model.layer);
  fields("mlp_bias", model.layer.feed_forward_bias, false);
  fields.expect("use_sliding_window", false);
  fields.irrelevant("sliding_window max_window_layers");  // of no use without
}

}  // namespace

LanguageFamily llama_family() {
  return {.model_type = "llama",
          .classes = {{"LlamaForCausalLM"}, {"LlamaModel"}},
          .base = llama_base(),
          .table = table,
          .weight_map = llama_weight_map};
}

LanguageFamily exaone_family() {
  return {.model_type = "exaone",
          .classes = {{"LlamaForCausalLM"}, {"ExaoneForCausalLM"}, {"ExaoneModel"}},
          .base = llama_base(),
          .table = exaone_table,
          .weight_map = exaone_map};
}

LanguageFamily internlm3_family() {
  return {.model_type = "internlm3",
          .classes = {{"InternLM3ForCausalLM"}, {"InternLM3Model"}, {"LlamaForCausalLM"}},
          .base = llama_base(),
          .table = internlm3_table,
          .weight_map = llama_weight_map};
}

LanguageFamily iquestcoder_family() {
  return {.model_type = "iquestcoder",
          .classes = {{"IQuestCoderForCausalLM"}, {"IQuestCoderModel"}, {"LlamaForCausalLM"}},
          .base = llama_base(),
          .table = iquestcoder_table,
          .weight_map = llama_weight_map};
}

}  // namespace qkv::models
