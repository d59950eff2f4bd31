#include "qkv/models/families/encoder_decoders/bart_family.h"

namespace qkv::models {
namespace {

// A size of the decoder, which is 0 if it is that of the encoder.
void decoder_field(const Fields& fields, const char* key, int64_t& value, int64_t encoders) {
  int64_t own = value > 0 ? value : encoders;
  fields(key, own);
  value = own == encoders ? 0 : own;
}

}  // namespace

void bart_fields(const Fields& fields, TransformerConfig& config, const BartDefaults& usual) {
  fields("d_model", config.d_model);
  fields("vocab_size", config.source_vocabulary);
  fields("encoder_layers", config.encoder_layers);
  fields("decoder_layers", config.decoder_layers);
  fields("encoder_attention_heads", config.heads);
  decoder_field(fields, "decoder_attention_heads", config.decoder_heads, config.heads);
  fields("encoder_ffn_dim", config.d_ff);
  decoder_field(fields, "decoder_ffn_dim", config.decoder_d_ff, config.d_ff);
  fields("activation_function", config.activation);
  if (usual.has_positions) fields("max_position_embeddings", config.max_positions, usual.max_positions);
  fields("scale_embedding", config.scale_embedding, usual.scale_embedding);
  fields("dropout", config.dropout, 0.1);
  fields("attention_dropout", config.attention_dropout, usual.attention_dropout);
  fields("activation_dropout", config.activation_dropout, 0);
  fields("eos_token_id", config.eos_id, usual.eos_id);
  fields("pad_token_id", config.pad_id, usual.pad_id);
  fields("decoder_start_token_id", config.decoder_start_id, usual.decoder_start_id.value_or(config.pad_id));
  fields.expect("is_encoder_decoder", true);
  fields.derive("is_encoder_decoder", true);
  fields.derive("encoder_layerdrop", 0.0);
  fields.derive("decoder_layerdrop", 0.0);
  fields.derive("init_std", 0.02);
  fields.derive("use_cache", true);
  fields.irrelevant(
      "classif_dropout classifier_dropout extra_pos_embeddings add_bias_logits num_hidden_layers");
}

}  // namespace qkv::models
