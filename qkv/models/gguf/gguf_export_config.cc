// The metadata of a GGUF file from config.json: the inverse of gguf_config.cc.

#include <cmath>

#include "qkv/base/error.h"
#include "qkv/models/gguf/gguf_export.h"
#include "qkv/models/gguf/llama3_scaling.h"
#include "qkv/models/hub/config_reader.h"

namespace qkv::models {
namespace {

// "rope_parameters", and the divisors of LLaMA 3.
std::vector<float> put_rotary(const ConfigReader& config, const std::string& prefix, int64_t head_width,
                              io::GgufMetadata& metadata) {
  const ConfigReader rotary = config.object("rope_parameters");
  if (config.has("rope_scaling")) config.ignore("rope_scaling");  // the same, as older programs read it
  const std::string type = rotary.string("rope_type", "default");
  const double base = rotary.number("rope_theta", 10000), factor = rotary.number("factor", 1);
  metadata.number(prefix + "rope.freq_base", base);
  std::vector<float> divisors;
  if (type == "linear" || type == "yarn") {
    metadata.text(prefix + "rope.scaling.type", type);
    metadata.number(prefix + "rope.scaling.factor", factor);
  }
  if (type == "yarn") {
    metadata.integer(prefix + "rope.scaling.original_context_length",
                     rotary.integer("original_max_position_embeddings"));
    metadata.number(prefix + "rope.scaling.yarn_beta_fast", rotary.number("beta_fast", 32));
    metadata.number(prefix + "rope.scaling.yarn_beta_slow", rotary.number("beta_slow", 1));
    rotary.require_boolean("truncate", true);
    const double usual = factor > 1 ? 0.1 * std::log(factor) + 1 : 1;
    if (std::abs(rotary.number("attention_factor", usual) - usual) > 1e-6)
      rotary.reject("attention_factor", concat(usual, ", the only one that GGUF files have here"));
  } else if (type == "llama3") {
    const auto require = [&](const char* key, double value) {
      if (rotary.number(key, value) != value)
        rotary.reject(key, concat(value, ", the only one that GGUF files have here"));
    };
    require("low_freq_factor", Llama3Scaling::kLow);
    require("high_freq_factor", Llama3Scaling::kHigh);
    require("original_max_position_embeddings", Llama3Scaling::kFirstPositions);
    for (int64_t i = 0; i < head_width / 2; ++i)
      divisors.push_back(static_cast<float>(Llama3Scaling{factor}.divisor(i, head_width, base)));
  } else if (type != "default" && type != "linear") {
    rotary.reject("rope_type", "default, linear, yarn or llama3, which GGUF files have here");
  }
  rotary.reject_unknown_fields();
  return divisors;
}

// Writes keys of one architecture.
struct Keys {
  std::string prefix;
  io::GgufMetadata& metadata;

  void integer(const char* key, int64_t value) const { metadata.integer(prefix + key, value); }
  void number(const char* key, double value) const { metadata.number(prefix + key, value); }
};

std::vector<float> put_llama(const ConfigReader& config, const Keys& keys) {
  const int64_t width = config.integer("hidden_size"), heads = config.integer("num_attention_heads");
  const int64_t head_width = config.integer("head_dim", width / heads);
  keys.integer("vocab_size", config.integer("vocab_size"));
  keys.integer("context_length", config.integer("max_position_embeddings"));
  keys.integer("embedding_length", width);
  keys.integer("block_count", config.integer("num_hidden_layers"));
  keys.integer("feed_forward_length", config.integer("intermediate_size"));
  keys.integer("attention.head_count", heads);
  keys.integer("attention.head_count_kv", config.integer("num_key_value_heads", heads));
  keys.integer("attention.key_length", head_width);
  keys.integer("attention.value_length", head_width);
  keys.integer("rope.dimension_count", head_width);
  keys.number("attention.layer_norm_rms_epsilon", config.number("rms_norm_eps", 1e-6));
  std::vector<float> divisors = put_rotary(config, keys.prefix, head_width, keys.metadata);
  config.require_string("hidden_act", "silu");
  config.require_boolean("mlp_bias", false);
  for (const std::string& kind : config.strings("layer_types")) {
    if (kind != "full_attention")
      config.reject("layer_types", "full_attention in all layers, which GGUF files have here");
  }
  config.require_boolean("use_sliding_window", false);
  config.ignore("attention_bias attention_dropout sliding_window max_window_layers rope_theta");
  return divisors;
}

}  // namespace

std::vector<float> put_gguf_config(const std::string& json, const std::string& where,
                                   io::GgufMetadata& metadata) {
  const ConfigReader config(json, where);
  const std::string architecture = config.string("model_type");
  metadata.text("general.architecture", architecture);
  std::vector<float> divisors = put_llama(config, {architecture + ".", metadata});
  // Ties and biases follow from the tensors.
  config.ignore("tie_word_embeddings bos_token_id eos_token_id architectures dtype");
  config.reject_unknown_model_fields();
  return divisors;
}

}  // namespace qkv::models
