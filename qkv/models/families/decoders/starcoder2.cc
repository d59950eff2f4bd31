// StarCoder 2 (Lozhkov et al. 2024): LLaMA's layout with layer norms, biases, a feed-forward without a gate,
// and a sliding window.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model,
               {.key_heads = 2,
                .max_positions = 4096,
                .epsilon = 1e-5,
                .tied = true,
                .activation = "gelu_pytorch_tanh",
                .epsilon_field = "norm_epsilon"});
  nn::LayerOptions& layer = model.layer;
  fields("use_bias", layer.feed_forward_bias, true);
  layer.attention.bias = nn::ProjectionBiases::all(layer.feed_forward_bias);
  fields.count_or_null("sliding_window", layer.attention.window, 0);
  fields("residual_dropout", layer.dropout, 0);
  fields("embedding_dropout", model.config.embedding.dropout, 0);
  // Fields of its first program.
  fields.irrelevant(
      "activation_function attention_softmax_in_fp32 layer_norm_epsilon scale_attention_softmax_in_fp32 "
      "scale_attn_weights");
  fields.expect("mlp_type", "default");
  fields.expect("norm_type", "layer_norm");
}

WeightMap weight_map(const LanguageModelConfig& config) {
  return with_rules({{"decoder.layers.#.fc1", "model.layers.#.mlp.c_fc"},
                     {"decoder.layers.#.fc2", "model.layers.#.mlp.c_proj"}},
                    llama_weight_map(config));
}

}  // namespace

LanguageFamily starcoder2_family() {
  return {.model_type = "starcoder2",
          .classes = {{"Starcoder2ForCausalLM"}, {"Starcoder2Model"}},
          .base = biased_base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
