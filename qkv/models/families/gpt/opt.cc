// OPT (Zhang et al. 2022): GPT-2's blocks with separate projections.

#include "qkv/models/families/gpt/fairseq_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  fields("max_position_embeddings", config.max_positions, 2048);
  fields("hidden_size", layer.d_model);
  fields("num_hidden_layers", layers);
  fields("num_attention_heads", layer.heads);
  fields("ffn_dim", layer.d_ff);
  fields("activation_function", layer.activation, "relu");
  fields("dropout", layer.dropout, 0.1);
  fields("attention_dropout", layer.attention_dropout, 0);
  fields("tie_word_embeddings", config.tied, true);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
  fields.expect("do_layer_norm_before enable_bias layer_norm_elementwise_affine", true);
  fields.expect("_remove_final_layer_norm", false);
  fields.expect("word_embed_proj_dim", layer.d_model);
  fields.irrelevant("layerdrop init_std activation_dropout");  // of training
  config.embedding.positions.max_positions = config.max_positions + kFairseqFirstRow;
}

WeightMap weight_map(const LanguageModelConfig& config) {
  return fairseq_weight_map(config, {.decoder = "model.decoder.", .final_norm = "final_layer_norm"});
}

}  // namespace

LanguageFamily opt_family() {
  return {.model_type = "opt",
          .classes = {{"OPTForCausalLM"}, {"OPTModel"}},
          .base = fairseq_base(nn::PositionKind::learned),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
