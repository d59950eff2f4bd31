// XGLM (Lin et al. 2021): OPT's blocks with scaled embeddings and sinusoidal positions.

#include "qkv/models/families/gpt/fairseq_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  fields("max_position_embeddings", config.max_positions, 2048);
  fields("d_model", layer.d_model);
  fields("num_layers", layers);
  fields("attention_heads", layer.heads);
  fields("ffn_dim", layer.d_ff);
  fields("activation_function", layer.activation, "gelu");
  fields("dropout", layer.dropout, 0.1);
  fields("attention_dropout", layer.attention_dropout, 0.1);
  fields("activation_dropout", layer.activation_dropout, 0);
  fields("tie_word_embeddings", config.tied, true);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
  scaled_embedding(fields, model);
  config.embedding.dropout = layer.dropout;
  int64_t pad = 1;
  if (fields.reads()) fields("pad_token_id", pad, pad);
  fields.require("pad_token_id", pad < kFairseqFirstRow, "0 or 1: the position of this row is zeros");
  fields.require("d_model", layer.d_model >= 4 && layer.d_model % 2 == 0, "an even number of at least 4");
  fields.expect("add_cross_attention", false);
  fields.irrelevant("layerdrop init_std decoder_start_token_id");  // of training, and of encoder-decoders
}

WeightMap weight_map(const LanguageModelConfig& config) { return fairseq_weight_map(config, {}); }

}  // namespace

LanguageFamily xglm_family() {
  return {.model_type = "xglm",
          .classes = {{"XGLMForCausalLM"}, {"XGLMModel"}},
          .base = fairseq_base(nn::PositionKind::sinusoidal_inclusive),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
