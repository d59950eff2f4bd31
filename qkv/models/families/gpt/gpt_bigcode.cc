// SantaCoder and StarCoder (Ben Allal et al. 2023): GPT-2's blocks with one key head.

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/gpt/gpt2_family.h"
#include "qkv/models/hub/settings.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  gpt2_fields(fields, model, {.activation = "gelu_pytorch_tanh"});
  bool single = model.layer.key_heads == 1;
  fields("multi_query", single, true);
  model.layer.key_heads = single ? 1 : model.layer.heads;
  fields.expect("add_cross_attention", false);
  // Of half precision, and of a program that runs it.
  fields.irrelevant(
      "attention_softmax_in_fp32 scale_attention_softmax_in_fp32 inference_runner max_batch_size "
      "max_sequence_length pad_key_length pre_allocate_kv_cache validate_runner_input num_key_value_heads");
}

WeightMap weight_map(const LanguageModelConfig& config) {
  const nn::LayerOptions layer = resolved(config.decoder.first());
  const std::string ours = "decoder.layers.#.", theirs = "transformer.h.#.";
  return with_rules(
      concatenated(theirs + "attn.c_attn", Layout::same,
                   {{ours + "self_attn.q_proj", layer.heads * layer.d_k},
                    {ours + "self_attn.k_proj", layer.key_heads * layer.d_k},
                    {ours + "self_attn.v_proj", layer.key_heads * layer.d_v}},
                   layer.key_heads),  // with a key head for each, fused head by head
      {.rules = {{.ours = "embed_tokens", .theirs = "transformer.wte", .also = tied_head(config)},
                 {"embed_positions", "transformer.wpe"},
                 {ours + "self_attn_layer_norm", theirs + "ln_1"},
                 {ours + "self_attn.out_proj", theirs + "attn.c_proj"},
                 {ours + "final_layer_norm", theirs + "ln_2"},
                 {ours + "fc1", theirs + "mlp.c_fc"},
                 {ours + "fc2", theirs + "mlp.c_proj"},
                 {"decoder.layer_norm", "transformer.ln_f"},
                 {"lm_head", "lm_head"}},
       .prefix = "transformer.",
       .computed = {".attn.bias", ".attn.masked_bias"}});
}

}  // namespace

LanguageFamily gpt_bigcode_family() {
  return {.model_type = "gpt_bigcode",
          .classes = {{"GPTBigCodeForCausalLM"}, {"GPTBigCodeModel"}},
          .base = gpt2_base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
