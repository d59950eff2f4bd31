// SantaCoder and StarCoder (Ben Allal et al. 2023): GPT-2's blocks with one key head.

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
  const std::string ours = "decoder.layers.#.self_attn.";
  return with_rules(concatenated("transformer.h.#.attn.c_attn", Layout::same,
                                 {{ours + "q_proj", layer.heads * layer.d_k},
                                  {ours + "k_proj", layer.key_heads * layer.d_k},
                                  {ours + "v_proj", layer.key_heads * layer.d_v}},
                                 layer.key_heads),  // with a key head for each, fused head by head
                    gpt2_weight_map(config));
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
