// BLOOM (Le Scao et al. 2022): ALiBi, a norm of the embeddings, and queries, keys and values fused head by
// head.

#include "qkv/models/families/gpt/megatron_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  // The length of its training, which transformers does not read.
  fields("seq_length", config.max_positions, 2048);
  fields({"hidden_size", "n_embed"}, layer.d_model);
  fields({"n_layer", "num_hidden_layers"}, layers);
  fields({"n_head", "num_attention_heads"}, layer.heads);
  fields("layer_norm_epsilon", layer.epsilon, 1e-5);
  fields("hidden_dropout", layer.dropout, 0);
  fields("attention_dropout", layer.attention_dropout, 0);
  fields("tie_word_embeddings", config.tied, true);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
  fields.expect("apply_residual_connection_post_layernorm", false);
  // Of the program that trained it, and of another order of the same sums.
  fields.irrelevant(
      "pretraining_tp slow_but_exact attention_softmax_in_fp32 bias_dropout_fusion masked_softmax_fusion "
      "offset_alibi skip_bias_add skip_bias_add_qkv n_inner unk_token_id");
  layer.d_ff = 4 * layer.d_model;
  config.embedding.epsilon = layer.epsilon;
}

WeightMap weight_map(const LanguageModelConfig& config) {
  return with_rules({{"embed_layer_norm", "transformer.word_embeddings_layernorm"}},
                    megatron_weight_map(config, config.decoder.first().heads));
}

}  // namespace

LanguageFamily bloom_family() {
  return {.model_type = "bloom",
          .classes = {{"BloomForCausalLM"}, {"BloomModel"}},
          .base = {.config = {.embedding = {.positions = {}, .norm = true}, .decoder = {.final_norm = true}},
                   .layer = {.activation = Activation::gelu_tanh,
                             .norm = nn::NormPlacement::pre,
                             .attention = {.positions = {.kind = nn::PositionKind::alibi}}}},
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
