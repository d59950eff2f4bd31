#include "qkv/models/marian.h"

#include <array>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/models/config_reader.h"
#include "qkv/models/weights.h"

namespace qkv::models {
namespace {

using nlohmann::json;

// Of training, of decoding (generation_config.json says how to decode), and what repeats other fields.
constexpr std::array<std::string_view, 17> kIrrelevant{"encoder_layerdrop",
                                                       "decoder_layerdrop",
                                                       "init_std",
                                                       "forced_eos_token_id",
                                                       "classif_dropout",
                                                       "classifier_dropout",
                                                       "extra_pos_embeddings",
                                                       "max_length",
                                                       "min_length",
                                                       "num_beams",
                                                       "length_penalty",
                                                       "early_stopping",
                                                       "bad_words_ids",
                                                       "no_repeat_ngram_size",
                                                       "num_hidden_layers",
                                                       "add_bias_logits",
                                                       "id2label"};

TransformerConfig from_marian(const ConfigReader& reader) {
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
  reader.refuse_the_rest(kIrrelevant);
  return config;
}

}  // namespace

bool fits_marian(const TransformerConfig& config) {
  const auto usual = [&](int64_t width) { return width == 0 || width * config.heads == config.d_model; };
  return config.norm == nn::NormPlacement::post && config.norm_kind == nn::NormKind::layer &&
         config.epsilon == 1e-5f && !config.gated && config.bias && config.output_bias &&
         config.positions == nn::PositionKind::sinusoidal_halves && config.tying != Tying::inputs &&
         config.scale_attention && !config.scale_output && !config.final_norm && usual(config.d_k) &&
         usual(config.d_v) && config.d_model % 2 == 0;
}

std::string config_json(const TransformerConfig& config, WeightForm weights) {
  json object{{"vocab_size", config.source_vocabulary},
              {"d_model", config.d_model},
              {"eos_token_id", config.eos_id},
              {"pad_token_id", config.pad_id},
              {"decoder_start_token_id", config.decoder_start_id},
              {"is_encoder_decoder", true},
              {"dtype", config_dtype(weights)}};
  if (fits_marian(config) && weights != WeightForm::int8) {
    object.update({{"architectures", {"MarianMTModel"}},
                   {"model_type", "marian"},
                   {"decoder_vocab_size", config.target_vocabulary},
                   {"encoder_layers", config.encoder_layers},
                   {"decoder_layers", config.decoder_layers},
                   {"encoder_attention_heads", config.heads},
                   {"decoder_attention_heads", config.heads},
                   {"encoder_ffn_dim", config.d_ff},
                   {"decoder_ffn_dim", config.d_ff},
                   {"activation_function", activation_name(config.activation)},
                   {"dropout", decimal(config.dropout)},
                   {"attention_dropout", decimal(config.attention_dropout)},
                   {"activation_dropout", decimal(config.activation_dropout)},
                   {"max_position_embeddings", config.max_positions},
                   {"scale_embedding", config.scale_embedding},
                   {"share_encoder_decoder_embeddings", config.tying == Tying::three_way},
                   {"tie_word_embeddings", config.tying != Tying::none},
                   {"embedding_dropout", decimal(config.embedding_dropout)},
                   {"encoder_layerdrop", 0.0},
                   {"decoder_layerdrop", 0.0},
                   {"init_std", 0.02},
                   {"use_cache", true},
                   {"forced_eos_token_id", nullptr}});
  } else {
    json all = json::object();
    for (const auto& [name, value] : fields(config)) all[name] = value;
    object.update({{"architectures", {"QkvTransformer"}}, {"model_type", "qkv"}, {"qkv", all}});
  }
  return object.dump(2) + "\n";
}

TransformerConfig parse_config_json(const std::string& text, const std::string& path) {
  const ConfigReader reader(text, path);
  const std::string type = reader.text("model_type");
  TransformerConfig config;
  if (type == "marian") {
    config = from_marian(reader);
  } else if (type == "qkv") {
    if (!reader.has("qkv")) reader.refuse("qkv", "an object of fields");
    for (const auto& [name, value] : reader.entries("qkv")) {
      try {
        if (!set_field(config, name, value)) {
          throw DataError(concat(path, ": qkv.", name, ": there is no such field"));
        }
      } catch (const UsageError& error) {
        throw DataError(concat(path, ": qkv.", error.what()));
      }
    }
  } else {
    reader.refuse("model_type", "\"marian\" or \"qkv\"");
  }
  try {
    config.validate();
  } catch (const UsageError& error) {
    throw DataError(concat(path, ": ", error.what()));
  }
  return config;
}

std::vector<std::string> tied_names(const TransformerConfig& config, const std::string& parameter) {
  if (config.tying == Tying::three_way && parameter == "model.shared.weight") {
    return {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"};
  }
  return {};
}

}  // namespace qkv::models
