#include "qkv/models/marian.h"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"

namespace qkv::models {
namespace {

using nlohmann::json;

const char* activation_name(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return "relu";
    case Activation::gelu_exact:
      return "gelu";
    case Activation::gelu_tanh:
      return "gelu_new";
    case Activation::silu:
      return "swish";
    case Activation::identity:
      return "linear";
  }
  return "unknown";
}

// The shortest decimal number that means this float: 0.2, not 0.20000000298023224.
double decimal(float value) {
  std::array<char, 32> text{};
  const char* end = std::to_chars(text.begin(), text.end(), value).ptr;
  double result = 0;
  std::from_chars(text.begin(), end, result);
  return result;
}

// Reads keys of one object and says what is wrong with them.
class Reader {
 public:
  Reader(const json& object, std::string path) : object_(object), path_(std::move(path)) {}

  [[noreturn]] void refuse(const std::string& key, const std::string& expected) const {
    const std::string found = object_.contains(key) ? object_[key].dump() : "nothing";
    throw DataError(concat(path_, ": \"", key, "\": expected ", expected, ", found ", found));
  }

  bool has(const std::string& key) const { return object_.contains(key) && !object_[key].is_null(); }

  int64_t whole(const std::string& key) const {
    if (!has(key) || !object_[key].is_number_integer()) refuse(key, "a whole number");
    return object_[key].get<int64_t>();
  }
  int64_t whole(const std::string& key, int64_t otherwise) const { return has(key) ? whole(key) : otherwise; }

  float number(const std::string& key, float otherwise) const {
    if (!has(key)) return otherwise;
    if (!object_[key].is_number()) refuse(key, "a number");
    return object_[key].get<float>();
  }

  bool flag(const std::string& key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!object_[key].is_boolean()) refuse(key, "true or false");
    return object_[key].get<bool>();
  }

  std::string text(const std::string& key) const {
    if (!has(key) || !object_[key].is_string()) refuse(key, "a string");
    return object_[key].get<std::string>();
  }

 private:
  const json& object_;
  std::string path_;
};

TransformerConfig from_marian(const Reader& reader) {
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
  config.dropout = reader.number("dropout", 0.1f);
  config.embedding_dropout =
      reader.number("embedding_dropout", config.dropout);  // Marian has one rate for both
  config.attention_dropout = reader.number("attention_dropout", 0.0f);
  config.activation_dropout = reader.number("activation_dropout", 0.0f);
  config.eos_id = reader.whole("eos_token_id", 0);
  config.pad_id = reader.whole("pad_token_id");
  config.decoder_start_id = reader.whole("decoder_start_token_id", config.pad_id);
  config.norm = nn::NormPlacement::post;
  config.positions = nn::PositionKind::sinusoidal_halves;
  const std::string activation = reader.text("activation_function");
  bool known = false;
  for (const auto candidate :
       {Activation::relu, Activation::gelu_exact, Activation::gelu_tanh, Activation::silu}) {
    if (activation == activation_name(candidate) || (activation == "silu" && candidate == Activation::silu)) {
      config.activation = candidate;
      known = true;
    }
  }
  if (!known) reader.refuse("activation_function", "relu, gelu, gelu_new, swish or silu");
  return config;
}

}  // namespace

bool fits_marian(const TransformerConfig& config) {
  const auto usual = [&](int64_t width) { return width == 0 || width * config.heads == config.d_model; };
  return config.norm == nn::NormPlacement::post && config.positions == nn::PositionKind::sinusoidal_halves &&
         !config.final_norm && usual(config.d_k) && usual(config.d_v) && config.d_model % 2 == 0;
}

std::string config_json(const TransformerConfig& config) {
  json object{{"vocab_size", config.source_vocabulary},
              {"d_model", config.d_model},
              {"eos_token_id", config.eos_id},
              {"pad_token_id", config.pad_id},
              {"decoder_start_token_id", config.decoder_start_id},
              {"is_encoder_decoder", true},
              {"dtype", "float32"}};
  if (fits_marian(config)) {
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
  json object;
  try {
    object = json::parse(text);
  } catch (const json::parse_error& error) {
    throw DataError(concat(path, ": expected JSON: ", error.what()));
  }
  if (!object.is_object())
    throw DataError(concat(path, ": expected a JSON object, found ", object.type_name()));
  const Reader reader(object, path);
  const std::string type = reader.text("model_type");
  TransformerConfig config;
  if (type == "marian") {
    config = from_marian(reader);
  } else if (type == "qkv") {
    if (!object["qkv"].is_object()) reader.refuse("qkv", "an object of fields");
    for (const auto& [name, value] : object["qkv"].items()) {
      if (!value.is_string())
        throw DataError(concat(path, ": qkv.", name, ": expected a string, found ", value.dump()));
      try {
        if (!set_field(config, name, value.get<std::string>())) {
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
