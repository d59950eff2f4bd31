// Marian (Junczys-Dowmunt et al. 2018): the paper's post-norm encoder-decoder, with sinusoids in halves.
// Models trained by qkv are saved in this format if it can express them.

#include "qkv/models/families/encoder_decoders/bart_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<TransformerConfig>& model) {
  TransformerConfig& config = model.config;
  bart_fields(fields, config, {.max_positions = 512, .eos_id = 0, .pad_id = {}, .decoder_start_id = {}});
  fields("decoder_vocab_size", config.target_vocabulary, config.source_vocabulary);
  fields("embedding_dropout", config.embedding_dropout, config.dropout);  // Marian has one rate for both
  bool shared = config.tying == Tying::three_way, tied = config.tying != Tying::none;
  fields("share_encoder_decoder_embeddings", shared, true);
  fields("tie_word_embeddings", tied, true);
  fields.require("tie_word_embeddings", tied || !shared, "true, as the embeddings are shared");
  config.tying = shared ? Tying::three_way : tied ? Tying::two_way : Tying::none;
  // Fields of related families that Marian's published folders repeat.
  fields.expect("normalize_before normalize_embedding add_final_layer_norm force_bos_token_to_be_generated",
                false);
  fields.expect("static_position_embeddings", true);
  fields.derive("forced_eos_token_id", nullptr);
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
