// LLaMA (Touvron et al. 2023) and models of the same layout, with optional biases.

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
