// config.json from the metadata of a GGUF file.

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/gguf/llama3_scaling.h"
#include "qkv/models/hub/config_writer.h"

namespace qkv::models {
namespace {

constexpr const char* kRotaryDivisors = "rope_freqs.weight";

// Keys after the architecture's name. A file with another may compute something else.
constexpr std::array<std::string_view, 22> kKnownKeys{"vocab_size",
                                                      "context_length",
                                                      "embedding_length",
                                                      "block_count",
                                                      "feed_forward_length",
                                                      "attention.head_count",
                                                      "attention.head_count_kv",
                                                      "attention.layer_norm_rms_epsilon",
                                                      "attention.key_length",
                                                      "attention.value_length",
                                                      "rope.dimension_count",
                                                      "rope.freq_base",
                                                      "rope.scaling.type",
                                                      "rope.scaling.factor",
                                                      "rope.scaling.original_context_length",
                                                      "rope.scaling.finetuned",
                                                      "rope.scaling.attn_factor",
                                                      "rope.scaling.yarn_beta_fast",
                                                      "rope.scaling.yarn_beta_slow",
                                                      "expert_count",
                                                      "expert_used_count",
                                                      "tensor_data_layout"};

}  // namespace

ConfigWriter GgufModel::rotary_scaling(int64_t head_width, double base) const {
  ConfigWriter scaling;
  const std::string type(file().text(key("rope.scaling.type")).value_or("none"));
  const auto number = [&](const char* name) { return file().number(key(concat("rope.scaling.", name))); };
  if (type != "none" && type != "linear" && type != "yarn")
    file().reject(key("rope.scaling.type"), "none, linear or yarn");
  if (type != "none") {
    scaling.string("rope_type", type);
    scaling.number("factor", number("factor").value_or(1));
    if (type == "yarn") {
      scaling.integer("original_max_position_embeddings", count("rope.scaling.original_context_length"));
      if (const auto slow = number("yarn_beta_slow")) scaling.number("beta_slow", *slow);
      if (const auto fast = number("yarn_beta_fast")) scaling.number("beta_fast", *fast);
    }
    return scaling;
  }
  if (!contains(kRotaryDivisors)) return scaling;
  const Tensor divisors = as_stored(kRotaryDivisors, Shape{head_width / 2});
  const auto values = divisors.dtype() == DType::f32 ? divisors.values() : std::span<const float>();
  const Llama3Scaling llama3{values.empty() ? 0.0 : double{*std::ranges::max_element(values)}};
  bool same = !values.empty();
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = llama3.divisor(static_cast<int64_t>(i), head_width, base);
    same = same && std::abs(double{values[i]} - expected) < 1e-4 * expected;
  }
  if (!same) {
    throw DataError(concat(path().string(), ": ", kRotaryDivisors,
                           ": expected the divisors of LLaMA 3's rotary scaling (low_freq_factor ",
                           Llama3Scaling::kLow, ", high_freq_factor ", Llama3Scaling::kHigh, ", ",
                           Llama3Scaling::kFirstPositions, " positions), found others"));
  }
  scaling.string("rope_type", "llama3");
  scaling.number("factor", llama3.factor);
  scaling.number("low_freq_factor", Llama3Scaling::kLow);
  scaling.number("high_freq_factor", Llama3Scaling::kHigh);
  scaling.integer("original_max_position_embeddings", static_cast<int64_t>(Llama3Scaling::kFirstPositions));
  return scaling;
}

std::string GgufModel::config_json() const {
  const std::string prefix = key("");
  for (const std::string& name : file().keys()) {
    if (name.starts_with(prefix) &&
        std::ranges::find(kKnownKeys, std::string_view(name).substr(prefix.size())) == kKnownKeys.end())
      file().reject(name, "no such key, as its meaning is unknown");
  }
  if (file().integer(key("expert_count")).value_or(0) != 0) file().reject(key("expert_count"), "0");

  ConfigWriter config(model_type(), model_class());
  const int64_t width = count("embedding_length"), query_heads = count("attention.head_count");
  const int64_t head_width =
      file().has(key("attention.key_length")) ? count("attention.key_length") : width / query_heads;
  const auto same_width = [&](const char* name) {
    if (file().has(key(name)) && count(name) != head_width)
      file().reject(key(name), concat(head_width, ", the width of a key"));
  };
  same_width("attention.value_length");
  same_width("rope.dimension_count");
  const double base = file().number(key("rope.freq_base")).value_or(10000);
  const auto epsilon = file().number(key("attention.layer_norm_rms_epsilon"));
  if (!epsilon) file().reject(key("attention.layer_norm_rms_epsilon"), "a number");

  config.integer("vocab_size", shape("model.embed_tokens.weight")[0]);
  config.integer("max_position_embeddings", count("context_length"));
  config.integer("hidden_size", width);
  config.integer("intermediate_size", count("feed_forward_length"));
  config.integer("num_hidden_layers", count("block_count"));
  config.integer("num_attention_heads", query_heads);
  config.integer("num_key_value_heads", heads("attention.head_count_kv"));
  config.integer("head_dim", head_width);
  config.string("hidden_act", "silu");
  config.number("rms_norm_eps", static_cast<float>(*epsilon));
  config.number("rope_theta", base);
  config.boolean("tie_word_embeddings", !contains("lm_head.weight"));
  if (model_type() == "llama")
    config.boolean("attention_bias", contains("model.layers.0.self_attn.q_proj.bias"));
  if (const ConfigWriter scaling = rotary_scaling(head_width, base); scaling.json() != ConfigWriter().json())
    config.object("rope_scaling", scaling);
  const auto ids = [&](std::initializer_list<const char*> names) {
    std::vector<int32_t> found;
    for (const char* const name : names) {
      const auto id = file().integer(concat("tokenizer.ggml.", name));
      if (id && *id >= 0 && *id <= INT32_MAX && std::ranges::count(found, *id) == 0)
        found.push_back(static_cast<int32_t>(*id));
    }
    return found;
  };
  config.id("bos_token_id", ids({"bos_token_id"}));
  config.id("eos_token_id", ids({"eos_token_id", "eot_token_id", "eom_token_id"}));
  return config.json();
}

}  // namespace qkv::models
