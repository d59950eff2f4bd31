// The metadata of a GGUF file from config.json: the inverse of gguf_config.cc.

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/models/gguf/gguf_architecture.h"
#include "qkv/models/gguf/llama3_scaling.h"

namespace qkv::models {
namespace {

// The factors of longrope, which llama.cpp chooses by the length of the context.
void put_longrope(const ConfigReader& config, const ConfigReader& rotary, GgufKeys& keys) {
  const auto first = static_cast<double>(config.integer("original_max_position_embeddings"));
  const double growth = static_cast<double>(config.integer("max_position_embeddings")) / first;
  const double usual = growth > 1 ? std::sqrt(1 + std::log(growth) / std::log(first)) : 1;
  keys.number("rope.scaling.attn_factor", rotary.number("attention_factor", usual));
  for (const char* const length : {"long", "short"}) {
    const std::vector<double> factors = rotary.numbers(concat(length, "_factor"));
    keys.vectors.emplace_back(concat("rope_factors_", length, ".weight"),
                              std::vector<float>(factors.begin(), factors.end()));
  }
}

// The fields of "rope_parameters", or of those of one kind of layers; `rotated` features of a head.
void put_rotary(const ConfigReader& config, const ConfigReader& rotary, int64_t rotated, GgufKeys& keys) {
  const std::string type = rotary.string("rope_type", "default");
  const double base = rotary.number("rope_theta", 10000), factor = rotary.number("factor", 1);
  keys.integer("rope.dimension_count", rotated);
  keys.number("rope.freq_base", base);
  if (type == "linear" || type == "yarn") {
    keys.metadata.text(keys.prefix + "rope.scaling.type", type);
    keys.number("rope.scaling.factor", factor);
  }
  if (type == "yarn") {
    keys.integer("rope.scaling.original_context_length", rotary.integer("original_max_position_embeddings"));
    keys.number("rope.scaling.yarn_beta_fast", rotary.number("beta_fast", 32));
    keys.number("rope.scaling.yarn_beta_slow", rotary.number("beta_slow", 1));
  } else if (type == "longrope") {
    put_longrope(config, rotary, keys);
  } else if (type == "llama3") {
    // One of the three cannot be told from the divisors.
    for (const auto& [key, value] : {std::pair("low_freq_factor", Llama3Scaling::kLow),
                                     {"high_freq_factor", Llama3Scaling::kHigh},
                                     {"original_max_position_embeddings", Llama3Scaling::kFirstPositions}}) {
      if (rotary.number(key, value) != value)
        rotary.reject(key, concat(value, ", the only one that GGUF files have here"));
    }
    std::vector<float> divisors;
    for (int64_t i = 0; i < rotated / 2; ++i)
      divisors.push_back(static_cast<float>(Llama3Scaling{factor}.divisor(i, rotated, base)));
    keys.vectors.emplace_back("rope_freqs.weight", std::move(divisors));
  }
}

// The fields that LLaMA and its relatives share. Returns the width of a head.
int64_t put_gated(const ConfigReader& config, const GgufKeys& keys) {
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
  keys.number("attention.layer_norm_rms_epsilon", config.number("rms_norm_eps", 1e-6));
  return head_width;
}

// The scale of the scores has no key, and windows alternate (describe_scores).
void put_windows(const ConfigReader& config, const GgufKeys& keys) {
  keys.integer("attention.sliding_window", config.integer("sliding_window", 0));
  for (const char* const softcap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (config.has(softcap)) keys.number(softcap, config.number(softcap, 0));
  }
}

// llama.cpp opens no other files of these architectures, although they would mean something here.
void require_tied(const ConfigReader& config) {
  if (!config.boolean("tie_word_embeddings", true))
    config.reject("tie_word_embeddings", "true, as llama.cpp has no other models of this architecture");
}

void put_learned(const ConfigReader& config, const GgufKeys& keys, const std::vector<const char*>& fields,
                 const char* epsilon) {
  constexpr std::array kKeys{"context_length", "embedding_length", "feed_forward_length",
                             "attention.head_count", "block_count"};
  for (size_t i = 0; i < kKeys.size(); ++i) keys.integer(kKeys[i], config.integer(fields[i]));
  keys.number("attention.layer_norm_epsilon", config.number(epsilon, 0));
}

}  // namespace

void put_llama(const ConfigReader& config, GgufKeys& keys) {
  put_rotary(config, config.object("rope_parameters"), put_gated(config, keys), keys);
}

void put_gemma(const ConfigReader& config, GgufKeys& keys) {
  require_tied(config);
  put_llama(config, keys);
}

void put_gemma2(const ConfigReader& config, GgufKeys& keys) {
  put_gemma(config, keys);
  put_windows(config, keys);
}

void put_gemma3(const ConfigReader& config, GgufKeys& keys) {
  const int64_t head_width = put_gated(config, keys);
  put_windows(config, keys);
  const std::vector<std::string> kinds = config.strings("layer_types");
  const auto full = std::ranges::find(kinds, "full_attention");  // the last layer of each period
  keys.integer("attention.sliding_window_pattern", 1 + (full - kinds.begin()));
  const ConfigReader rotary = config.object("rope_parameters");
  put_rotary(config, rotary.object("full_attention"), head_width, keys);
  keys.number("rope.freq_base_swa", rotary.object("sliding_attention").number("rope_theta", 10000));
}

void put_phi3(const ConfigReader& config, GgufKeys& keys) {
  const int64_t head_width = put_gated(config, keys), heads = config.integer("num_attention_heads");
  if (head_width * heads != config.integer("hidden_size"))
    config.reject("head_dim", "hidden_size / num_attention_heads, as llama.cpp has no other models of phi3");
  const ConfigReader rotary = config.object("rope_parameters");
  const double share = rotary.number("partial_rotary_factor", 1);
  put_rotary(config, rotary, std::llround(share * static_cast<double>(head_width)), keys);
  keys.integer("rope.scaling.original_context_length", config.integer("original_max_position_embeddings"));
  if (!config.has("sliding_window")) return;
  keys.integer("attention.sliding_window", config.integer("sliding_window", 0));
  log_warning("sliding_window: llama.cpp computes Phi-3's windows as full attention");
}

void put_gpt2(const ConfigReader& config, GgufKeys& keys) {
  put_learned(config, keys, {"n_positions", "n_embd", "n_inner", "n_head", "n_layer"}, "layer_norm_epsilon");
}

void put_bert(const ConfigReader& config, GgufKeys& keys) {
  put_learned(config, keys,
              {"max_position_embeddings", "hidden_size", "intermediate_size", "num_attention_heads",
               "num_hidden_layers"},
              "layer_norm_eps");
  keys.metadata.boolean(keys.prefix + "attention.causal", false);
  keys.metadata.integer("tokenizer.ggml.token_type_count", config.integer("type_vocab_size"));
}

void put_nomic_bert(const ConfigReader& config, GgufKeys& keys) {
  put_bert(config, keys);
  const int64_t head_width = config.integer("hidden_size") / config.integer("num_attention_heads");
  put_rotary(config, config.object("rope_parameters"), head_width, keys);
}

}  // namespace qkv::models
