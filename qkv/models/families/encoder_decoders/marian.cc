// Marian (Junczys-Dowmunt et al. 2018): the paper's post-norm encoder-decoder, with sinusoids in halves.
// Models trained by qkv are saved in this format if it can express them.

#include <array>

#include "qkv/base/error.h"
#include "qkv/models/hub/config_fields.h"
#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

template <class Fields, class Config>
void visit_marian_fields(const Fields& fields, Config& config) {
  fields("d_model", config.d_model);
  fields("vocab_size", config.source_vocabulary);
  fields("decoder_vocab_size", config.target_vocabulary, config.source_vocabulary);
  fields("encoder_layers", config.encoder_layers);
  fields("decoder_layers", config.decoder_layers);
  fields("encoder_attention_heads", config.heads);
  fields("decoder_attention_heads", config.decoder_heads);
  fields("encoder_ffn_dim", config.d_ff);
  fields("decoder_ffn_dim", config.decoder_d_ff);
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
}

TransformerConfig parse(const ConfigReader& reader) {
  reader.require_class({"MarianMTModel", "MarianModel"});
  TransformerConfig config;
  visit_marian_fields(FieldReader(reader), config);
  if (config.decoder_heads == config.heads) config.decoder_heads = 0;
  if (config.decoder_d_ff == config.d_ff) config.decoder_d_ff = 0;
  const bool shared = reader.boolean("share_encoder_decoder_embeddings", true);
  const bool tied = reader.boolean("tie_word_embeddings", true);
  if (shared && !tied) reader.reject("tie_word_embeddings", "true, as the embeddings are shared");
  config.tying = shared ? Tying::three_way : tied ? Tying::two_way : Tying::none;
  config.norm = nn::NormPlacement::post;
  config.positions = nn::PositionKind::sinusoidal_halves;
  // Fields of related families that Marian's published folders repeat.
  reader.require_boolean("is_encoder_decoder", true);
  reader.require_boolean("is_decoder", false);
  reader.require_boolean("normalize_before", false);
  reader.require_boolean("normalize_embedding", false);
  reader.require_boolean("add_final_layer_norm", false);
  reader.require_boolean("static_position_embeddings", true);
  reader.require_boolean("force_bos_token_to_be_generated", false);
  // Training settings, and repetitions of other fields.
  constexpr std::array<std::string_view, 8> kIrrelevant{
      "encoder_layerdrop",  "decoder_layerdrop",    "init_std",        "classif_dropout",
      "classifier_dropout", "extra_pos_embeddings", "add_bias_logits", "num_hidden_layers"};
  reader.reject_unknown_model_fields(kIrrelevant);
  return config;
}

bool fits(const TransformerConfig& config) {
  const auto usual = [&](int64_t width) { return width == 0 || width * config.heads == config.d_model; };
  return config.norm == nn::NormPlacement::post && config.norm_kind == nn::NormKind::layer &&
         config.epsilon == 1e-5f && !config.gated && config.bias && config.output_bias &&
         config.positions == nn::PositionKind::sinusoidal_halves && config.tying != Tying::inputs &&
         config.scale_attention && !config.embedding_norm && !config.scale_output && !config.final_norm &&
         usual(config.d_k) && usual(config.d_v) && config.d_model % 2 == 0 && config.source_eos;
}

ConfigWriter serialize(const TransformerConfig& config) {
  if (!fits(config)) {
    throw UsageError(
        "marian: expected post-norm blocks with layer norms, biases and heads of d_model / heads features, "
        "sinusoidal positions in halves, and </s> after sources, found another model");
  }
  ConfigWriter writer("marian", "MarianMTModel");
  TransformerConfig written = config;
  if (written.decoder_heads == 0) written.decoder_heads = config.heads;
  if (written.decoder_d_ff == 0) written.decoder_d_ff = config.d_ff;
  visit_marian_fields(FieldWriter(writer), written);
  writer.boolean("share_encoder_decoder_embeddings", config.tying == Tying::three_way);
  writer.boolean("tie_word_embeddings", config.tying != Tying::none);
  writer.number("encoder_layerdrop", 0.0);
  writer.number("decoder_layerdrop", 0.0);
  writer.number("init_std", 0.02);
  writer.boolean("is_encoder_decoder", true);
  writer.boolean("use_cache", true);
  writer.id("forced_eos_token_id", {});
  return writer;
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

// Marian models are meant for beam search.
TranslationFamily marian_family() { return {{"marian", parse, serialize, weight_map}, fits}; }

}  // namespace qkv::models
