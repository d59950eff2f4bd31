// Marian (Junczys-Dowmunt et al. 2018): the paper's post-norm encoder-decoder, with sinusoids in halves.
// Models trained by qkv are saved in this format if it can express them.

#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

// A size of the decoder, which is 0 if it is that of the encoder.
void decoder_field(const Fields& fields, const char* key, int64_t& value, int64_t encoders) {
  int64_t own = value > 0 ? value : encoders;
  fields(key, own);
  value = own == encoders ? 0 : own;
}

void table(const Fields& fields, Described<TransformerConfig>& model) {
  TransformerConfig& config = model.config;
  fields("d_model", config.d_model);
  fields("vocab_size", config.source_vocabulary);
  fields("decoder_vocab_size", config.target_vocabulary, config.source_vocabulary);
  fields("encoder_layers", config.encoder_layers);
  fields("decoder_layers", config.decoder_layers);
  fields("encoder_attention_heads", config.heads);
  decoder_field(fields, "decoder_attention_heads", config.decoder_heads, config.heads);
  fields("encoder_ffn_dim", config.d_ff);
  decoder_field(fields, "decoder_ffn_dim", config.decoder_d_ff, config.d_ff);
  fields("activation_function", config.activation);
  fields("max_position_embeddings", config.max_positions, 512);
  fields("scale_embedding", config.scale_embedding, false);
  fields("dropout", config.dropout, 0.1);
  fields("embedding_dropout", config.embedding_dropout, config.dropout);  // Marian has one rate for both
  fields("attention_dropout", config.attention_dropout, 0);
  fields("activation_dropout", config.activation_dropout, 0);
  fields("eos_token_id", config.eos_id, 0);
  fields("pad_token_id", config.pad_id);
  fields("decoder_start_token_id", config.decoder_start_id, config.pad_id);
  bool shared = config.tying == Tying::three_way, tied = config.tying != Tying::none;
  fields("share_encoder_decoder_embeddings", shared, true);
  fields("tie_word_embeddings", tied, true);
  fields.require("tie_word_embeddings", tied || !shared, "true, as the embeddings are shared");
  config.tying = shared ? Tying::three_way : tied ? Tying::two_way : Tying::none;
  fields.expect("is_encoder_decoder", true);
  // Fields of related families that Marian's published folders repeat.
  fields.expect("normalize_before normalize_embedding add_final_layer_norm force_bos_token_to_be_generated",
                false);
  fields.expect("static_position_embeddings", true);
  fields.derive("is_encoder_decoder", true);
  fields.derive("encoder_layerdrop", 0.0);
  fields.derive("decoder_layerdrop", 0.0);
  fields.derive("init_std", 0.02);
  fields.derive("use_cache", true);
  fields.derive("forced_eos_token_id", nullptr);
  fields.irrelevant(
      "classif_dropout classifier_dropout extra_pos_embeddings add_bias_logits num_hidden_layers");
}

// This model's parameters have Marian's names.
WeightMap weight_map(const TransformerConfig& config) {
  WeightMap map{.rules = {{.ours = "final_logits_bias", .theirs = "final_logits_bias", .optional = true}},
                .others_same = true,
                .computed = {"model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"}};
  if (config.tying == Tying::three_way) {
    map.rules.push_back({.ours = "model.shared",
                         .theirs = "model.shared",
                         .also = {"model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"}});
  } else if (config.tying == Tying::two_way) {
    map.rules.push_back(
        {.ours = "model.decoder.embed_tokens", .theirs = "model.decoder.embed_tokens", .also = {"lm_head"}});
  }
  return map;
}

}  // namespace

TranslationFamily marian_family() {
  return {.model_type = "marian",
          .classes = {{"MarianMTModel"}, {"MarianModel"}},
          .base = {},
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
