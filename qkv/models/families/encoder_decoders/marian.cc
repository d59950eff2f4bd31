// Marian (Junczys-Dowmunt et al. 2018): the paper's post-norm encoder-decoder with sinusoids in halves. What
// qkv trains is written in its words where they suffice.

#include <array>

#include "qkv/base/error.h"
#include "qkv/models/hub/config_writer.h"
#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

TransformerConfig read(const ConfigReader& reader) {
  TransformerConfig config;
  config.d_model = reader.whole("d_model");
  config.encoder_layers = reader.whole("encoder_layers");
  config.decoder_layers = reader.whole("decoder_layers");
  config.heads = reader.whole("encoder_attention_heads");
  config.d_ff = reader.whole("encoder_ffn_dim");
  if (reader.whole("decoder_attention_heads") != config.heads) {
    reader.refuse("decoder_attention_heads", concat("the encoder's ", config.heads));
  }
  if (reader.whole("decoder_ffn_dim") != config.d_ff)
    reader.refuse("decoder_ffn_dim", concat("the encoder's ", config.d_ff));
  const bool shared = reader.flag("share_encoder_decoder_embeddings", true);
  const bool tied = reader.flag("tie_word_embeddings", true);
  if (shared && !tied) reader.refuse("tie_word_embeddings", "true, as the embeddings are shared");
  config.tying = shared ? Tying::three_way : tied ? Tying::two_way : Tying::none;
  config.source_vocabulary = reader.whole("vocab_size");
  config.target_vocabulary = reader.whole("decoder_vocab_size", config.source_vocabulary);
  config.max_positions = reader.whole("max_position_embeddings", 512);
  config.scale_embedding = reader.flag("scale_embedding", false);
  const auto rate = [&](const char* key, float otherwise) {
    return static_cast<float>(reader.number(key, double{otherwise}));
  };
  config.dropout = rate("dropout", 0.1f);
  config.embedding_dropout = rate("embedding_dropout", config.dropout);  // Marian has one rate for both
  config.attention_dropout = rate("attention_dropout", 0);
  config.activation_dropout = rate("activation_dropout", 0);
  config.eos_id = reader.whole("eos_token_id", 0);
  config.pad_id = reader.whole("pad_token_id");
  config.decoder_start_id = reader.whole("decoder_start_token_id", config.pad_id);
  config.norm = nn::NormPlacement::post;
  config.positions = nn::PositionKind::sinusoidal_halves;
  config.activation = reader.activation("activation_function");
  // What other families of the same layout can say, and Marian's published folders repeat.
  reader.require_flag("is_encoder_decoder", true);
  reader.require_flag("is_decoder", false);
  reader.require_flag("normalize_before", false);
  reader.require_flag("normalize_embedding", false);
  reader.require_flag("add_final_layer_norm", false);
  reader.require_flag("static_position_embeddings", true);
  // Of training, and what repeats other fields.
  constexpr std::array<std::string_view, 9> kIrrelevant{"force_bos_token_to_be_generated",
                                                        "encoder_layerdrop",
                                                        "decoder_layerdrop",
                                                        "init_std",
                                                        "classif_dropout",
                                                        "classifier_dropout",
                                                        "extra_pos_embeddings",
                                                        "add_bias_logits",
                                                        "num_hidden_layers"};
  reader.refuse_the_rest_of_a_model(kIrrelevant);
  return config;
}

bool fits(const TransformerConfig& config) {
  const auto usual = [&](int64_t width) { return width == 0 || width * config.heads == config.d_model; };
  return config.norm == nn::NormPlacement::post && config.norm_kind == nn::NormKind::layer &&
         config.epsilon == 1e-5f && !config.gated && config.bias && config.output_bias &&
         config.positions == nn::PositionKind::sinusoidal_halves && config.tying != Tying::inputs &&
         config.scale_attention && !config.scale_output && !config.final_norm && usual(config.d_k) &&
         usual(config.d_v) && config.d_model % 2 == 0;
}

std::string write(const TransformerConfig& config) {
  if (!fits(config)) {
    throw UsageError(
        "marian: expected post-norm blocks with layer norms, biases and heads of d_model / heads features, "
        "and sinusoidal positions in halves, found another model");
  }
  ConfigWriter writer("marian", "MarianMTModel");
  writer.whole("vocab_size", config.source_vocabulary);
  writer.whole("decoder_vocab_size", config.target_vocabulary);
  writer.whole("d_model", config.d_model);
  writer.whole("encoder_layers", config.encoder_layers);
  writer.whole("decoder_layers", config.decoder_layers);
  writer.whole("encoder_attention_heads", config.heads);
  writer.whole("decoder_attention_heads", config.heads);
  writer.whole("encoder_ffn_dim", config.d_ff);
  writer.whole("decoder_ffn_dim", config.d_ff);
  writer.activation("activation_function", config.activation);
  writer.whole("max_position_embeddings", config.max_positions);
  writer.flag("scale_embedding", config.scale_embedding);
  writer.flag("share_encoder_decoder_embeddings", config.tying == Tying::three_way);
  writer.flag("tie_word_embeddings", config.tying != Tying::none);
  writer.number("dropout", config.dropout);
  writer.number("embedding_dropout", config.embedding_dropout);
  writer.number("attention_dropout", config.attention_dropout);
  writer.number("activation_dropout", config.activation_dropout);
  writer.number("encoder_layerdrop", 0.0);
  writer.number("decoder_layerdrop", 0.0);
  writer.number("init_std", 0.02);
  writer.flag("is_encoder_decoder", true);
  writer.flag("use_cache", true);
  writer.whole("pad_token_id", config.pad_id);
  writer.whole("eos_token_id", config.eos_id);
  writer.whole("decoder_start_token_id", config.decoder_start_id);
  writer.id("forced_eos_token_id", {});
  return writer.json();
}

// Parameters of a Transformer are named as Marian names them.
NameMap names(const TransformerConfig& config) {
  NameMap map{.rules = {{.ours = "final_logits_bias", .theirs = "final_logits_bias", .optional = true}},
              .others_same = true,
              .computed = {"model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"}};
  if (config.tying == Tying::three_way) {
    map.rules.push_back({.ours = "model.shared",
                         .theirs = "model.shared",
                         .also = {"model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"}});
  }
  return map;
}

}  // namespace

// Such models are made for beams.
TranslationFamily marian_family() { return {{"marian", read, write, names}, fits}; }

}  // namespace qkv::models
