// config.json from the metadata of a GGUF file.

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/base/json.h"
#include "qkv/models/gguf/gguf_architecture.h"
#include "qkv/models/gguf/llama3_scaling.h"

namespace qkv::models {

GgufMetadata::GgufMetadata(const io::GgufFile& file)
    : file_(file), prefix_(concat(file.text("general.architecture").value_or(""), '.')) {}

std::string GgufMetadata::key(std::string_view name) const { return concat(prefix_, name); }

std::string GgufMetadata::noted(std::string_view name) {
  std::string own = key(name);
  read_.insert(own);
  return own;
}

int64_t GgufMetadata::count(std::string_view name) {
  const auto found = file_.integer(noted(name));
  if (!found || *found < 1 || *found > INT32_MAX) reject(name, "a number from 1 to 2147483647");
  return *found;
}

int64_t GgufMetadata::count(std::string_view name, int64_t otherwise) {
  const std::string own = noted(name);
  return !file_.has(own) || file_.integer(own) == 0 ? otherwise : count(name);
}

std::optional<float> GgufMetadata::optional_number(std::string_view name) {
  const auto found = file_.number(noted(name));
  if (found && !std::isfinite(static_cast<float>(*found))) reject(name, "a finite number");
  return found ? std::optional(static_cast<float>(*found)) : std::nullopt;
}

float GgufMetadata::number(std::string_view name) {
  const auto found = optional_number(name);
  if (!found) reject(name, "a number");
  return *found;
}

std::string GgufMetadata::text(std::string_view name, std::string_view otherwise) {
  return std::string(file_.text(noted(name)).value_or(otherwise));
}

std::vector<int64_t> GgufMetadata::integers(std::string_view name) { return file_.integers(noted(name)); }

void GgufMetadata::expect(std::string_view name, int64_t value) {
  const std::string own = noted(name);
  if (file_.has(own) && file_.integer(own) != value) reject(name, std::to_string(value));
}

void GgufMetadata::expect_false(std::string_view name) {
  if (file_.boolean(noted(name)).value_or(false)) reject(name, "false");
}

void GgufMetadata::ignore(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) noted(name);
}

void GgufMetadata::reject_unread() const {
  for (const std::string& one : file_.keys()) {
    if (one.starts_with(prefix_) && !read_.contains(one))
      file_.reject(one, "no such key, as its meaning is unknown");
  }
}

namespace {

constexpr const char* kRotaryDivisors = "rope_freqs.weight";
constexpr const char *kLongFactors = "rope_factors_long.weight", *kShortFactors = "rope_factors_short.weight";

// A small tensor of F32, one number for each rotated pair.
std::span<const float> factors_of(const GgufModel& model, const char* name, int64_t pairs) {
  const Tensor values = model.as_stored(name, Shape{pairs});
  if (values.dtype() != DType::f32)
    throw DataError(concat(model.path().string(), ": ", name, ": expected F32, found ", model.dtype(name)));
  return values.values();  // of the mapped file, which the model keeps
}

// The factors of LLaMA 3 in "rope_scaling", from the divisors in the file.
void put_llama3(const GgufModel& model, int64_t head_width, double base, ConfigWriter& config) {
  const std::span<const float> values = factors_of(model, kRotaryDivisors, head_width / 2);
  const Llama3Scaling llama3{values.empty() ? 0.0 : double{*std::ranges::max_element(values)}};
  bool same = !values.empty();
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = llama3.divisor(static_cast<int64_t>(i), head_width, base);
    same = same && std::abs(double{values[i]} - expected) < 1e-4 * expected;
  }
  if (!same) {
    throw DataError(concat(model.path().string(), ": ", kRotaryDivisors,
                           ": expected the divisors of LLaMA 3's rotary scaling (low_freq_factor ",
                           Llama3Scaling::kLow, ", high_freq_factor ", Llama3Scaling::kHigh, ", ",
                           Llama3Scaling::kFirstPositions, " positions), found others"));
  }
  ConfigWriter scaling;
  scaling.string("rope_type", "llama3");
  scaling.number("factor", llama3.factor);
  scaling.number("low_freq_factor", Llama3Scaling::kLow);
  scaling.number("high_freq_factor", Llama3Scaling::kHigh);
  scaling.integer("original_max_position_embeddings", static_cast<int64_t>(Llama3Scaling::kFirstPositions));
  config.object("rope_scaling", scaling);
}

void put_rotary_scaling(const GgufModel& model, GgufMetadata& metadata, int64_t head_width, double base,
                        ConfigWriter& config) {
  const std::string type = metadata.text("rope.scaling.type", "none");
  if (type != "none" && type != "linear" && type != "yarn")
    metadata.reject("rope.scaling.type", "none, linear or yarn");
  // The factor's effect on the magnitude, which follows from it, and a note.
  metadata.ignore({"rope.scaling.attn_factor", "rope.scaling.finetuned"});
  if (type == "none") {
    metadata.ignore({"rope.scaling.original_context_length"});
    if (const auto factor = metadata.optional_number("rope.scaling.factor"); factor.value_or(1) > 1)
      metadata.reject("rope.scaling.factor", "1, as rope.scaling.type is none");
    if (model.contains(kRotaryDivisors)) put_llama3(model, head_width, base, config);
    return;
  }
  ConfigWriter scaling;
  scaling.string("rope_type", type);
  scaling.number("factor", metadata.optional_number("rope.scaling.factor").value_or(1));
  if (type == "yarn") {
    scaling.integer("original_max_position_embeddings",
                    metadata.count("rope.scaling.original_context_length"));
    if (const auto slow = metadata.optional_number("rope.scaling.yarn_beta_slow"))
      scaling.number("beta_slow", *slow);
    if (const auto fast = metadata.optional_number("rope.scaling.yarn_beta_fast"))
      scaling.number("beta_fast", *fast);
  } else {
    metadata.ignore({"rope.scaling.original_context_length"});
  }
  config.object("rope_scaling", scaling);
}

// What all architectures have.
void common(GgufMetadata& metadata) {
  metadata.ignore({"vocab_size", "tensor_data_layout", "pooling_type"});  // shapes decide; text_file() reads
  metadata.expect("expert_count", 0);
  metadata.expect("expert_used_count", 0);
}

struct Sizes {
  int64_t width = 0, heads = 0, key_heads = 0, head_width = 0;
  double base = 0;
};

// The fields that LLaMA and its relatives share. `activation`: its field and name.
Sizes put_sizes(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config,
                std::pair<const char*, const char*> activation) {
  common(metadata);
  Sizes sizes{.width = metadata.count("embedding_length"), .heads = metadata.count("attention.head_count")};
  sizes.key_heads = metadata.count("attention.head_count_kv", sizes.heads);
  sizes.head_width = metadata.count("attention.key_length", std::max<int64_t>(sizes.width / sizes.heads, 1));
  metadata.expect("attention.value_length", sizes.head_width);
  sizes.base = metadata.optional_number("rope.freq_base").value_or(10000);
  config.integer("vocab_size", model.shape("model.embed_tokens.weight")[0]);
  config.integer("max_position_embeddings", metadata.count("context_length"));
  config.integer("hidden_size", sizes.width);
  config.integer("intermediate_size", metadata.count("feed_forward_length"));
  config.integer("num_hidden_layers", metadata.count("block_count"));
  config.integer("num_attention_heads", sizes.heads);
  config.integer("num_key_value_heads", sizes.key_heads);
  config.integer("head_dim", sizes.head_width);
  config.string(activation.first, activation.second);
  config.number("rms_norm_eps", metadata.number("attention.layer_norm_rms_epsilon"));
  config.number("rope_theta", sizes.base);
  config.boolean("tie_word_embeddings", !model.contains("lm_head.weight"));
  return sizes;
}

constexpr std::pair kSilu{"hidden_act", "silu"}, kGelu{"hidden_activation", "gelu_pytorch_tanh"};

// Gemma 2 and 3 divide scores by the square root of a head's width, or, in the models of 27 billion
// parameters, of the width by heads; files do not have the number (llama-model.cpp, LLM_TYPE_27B).
void describe_scores(GgufMetadata& metadata, const Sizes& sizes, int64_t layers_of_27b,
                     ConfigWriter& config) {
  const bool largest = metadata.count("block_count") == layers_of_27b;
  config.integer("query_pre_attn_scalar", largest ? sizes.width / sizes.heads : sizes.head_width);
  if (const auto softcap = metadata.optional_number("final_logit_softcapping"))
    config.number("final_logit_softcapping", *softcap);
  config.integer("sliding_window", metadata.count("attention.sliding_window"));
}

}  // namespace

void describe_qwen(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config) {
  const Sizes sizes = put_sizes(model, metadata, config, kSilu);
  metadata.expect("rope.dimension_count", sizes.head_width);
  put_rotary_scaling(model, metadata, sizes.head_width, sizes.base, config);
}

void describe_llama(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config) {
  describe_qwen(model, metadata, config);
  config.boolean("attention_bias", model.contains("model.layers.0.self_attn.q_proj.bias"));
}

void describe_gemma(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config) {
  const Sizes sizes = put_sizes(model, metadata, config, {"hidden_act", kGelu.second});
  metadata.expect("rope.dimension_count", sizes.head_width);
}

void describe_gemma2(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config) {
  const Sizes sizes = put_sizes(model, metadata, config, kGelu);
  metadata.expect("rope.dimension_count", sizes.head_width);
  describe_scores(metadata, sizes, 46, config);
  if (const auto softcap = metadata.optional_number("attn_logit_softcapping"))
    config.number("attn_logit_softcapping", *softcap);
}

void describe_gemma3(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config) {
  const Sizes sizes = put_sizes(model, metadata, config, kGelu);
  metadata.expect("rope.dimension_count", sizes.head_width);
  describe_scores(metadata, sizes, 62, config);
  config.integer("sliding_window_pattern", metadata.count("attention.sliding_window_pattern", 6));
  config.number("rope_local_base_freq", metadata.optional_number("rope.freq_base_swa").value_or(10000));
  put_rotary_scaling(model, metadata, sizes.head_width, sizes.base, config);
}

void describe_phi3(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config) {
  const Sizes sizes = put_sizes(model, metadata, config, kSilu);
  const int64_t rotated = metadata.count("rope.dimension_count", sizes.head_width);
  if (rotated > sizes.head_width || rotated % 2 != 0)
    metadata.reject("rope.dimension_count", concat("an even number up to ", sizes.head_width));
  config.number("partial_rotary_factor",
                static_cast<double>(rotated) / static_cast<double>(sizes.head_width));
  if (const int64_t window = metadata.count("attention.sliding_window", 0); window > 0)
    config.integer("sliding_window", window);
  const int64_t all = metadata.count("context_length");
  const int64_t first = metadata.count("rope.scaling.original_context_length", all);
  config.integer("original_max_position_embeddings", first);
  const auto magnitude = metadata.optional_number("rope.scaling.attn_factor");
  if (!model.contains(kLongFactors)) return;
  ConfigWriter scaling;
  scaling.string("rope_type", "longrope");
  for (const auto& [key, name] : {std::pair("long_factor", kLongFactors), {"short_factor", kShortFactors}}) {
    const std::span<const float> factors = factors_of(model, name, rotated / 2);
    std::vector<double> values;
    for (const float one : factors) values.push_back(decimal(one));
    scaling.numbers(key, values);
  }
  const double growth = static_cast<double>(all) / static_cast<double>(first);
  const double usual =
      growth > 1 ? std::sqrt(1 + std::log(growth) / std::log(static_cast<double>(first))) : 1;
  if (magnitude && std::abs(*magnitude - usual) > 1e-6 * usual)
    scaling.number("attention_factor", *magnitude);
  config.object("rope_scaling", scaling);
}

void describe_gpt2(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config) {
  common(metadata);
  metadata.expect("attention.head_count_kv", metadata.count("attention.head_count"));
  config.integer("vocab_size", model.shape("transformer.wte.weight")[0]);
  config.integer("n_positions", metadata.count("context_length"));
  config.integer("n_embd", metadata.count("embedding_length"));
  config.integer("n_inner", metadata.count("feed_forward_length"));
  config.integer("n_layer", metadata.count("block_count"));
  config.integer("n_head", metadata.count("attention.head_count"));
  config.number("layer_norm_epsilon", metadata.number("attention.layer_norm_epsilon"));
  config.string("activation_function", "gelu_new");
  config.boolean("tie_word_embeddings", !model.contains("lm_head.weight"));
}

namespace {

// `model`: of the tensors' names.
void describe_encoder(const std::string& tensors, const GgufModel& model, GgufMetadata& metadata,
                      ConfigWriter& config, const char* activation) {
  common(metadata);
  metadata.expect_false("attention.causal");
  config.integer("vocab_size", model.shape(tensors + "word_embeddings.weight")[0]);
  config.integer("type_vocab_size", model.shape(tensors + "token_type_embeddings.weight")[0]);
  config.integer("max_position_embeddings", metadata.count("context_length"));
  config.integer("hidden_size", metadata.count("embedding_length"));
  config.integer("intermediate_size", metadata.count("feed_forward_length"));
  config.integer("num_hidden_layers", metadata.count("block_count"));
  config.integer("num_attention_heads", metadata.count("attention.head_count"));
  config.number("layer_norm_eps", metadata.number("attention.layer_norm_epsilon"));
  config.string("hidden_act", activation);
}

}  // namespace

void describe_bert(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config) {
  describe_encoder("bert.embeddings.", model, metadata, config, "gelu");
}

void describe_nomic_bert(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config) {
  describe_encoder("nomic_bert.embeddings.", model, metadata, config, "silu");
  const int64_t heads = metadata.count("attention.head_count");
  metadata.expect("attention.head_count_kv", heads);
  metadata.expect("rope.dimension_count", metadata.count("embedding_length") / heads);
  metadata.expect("attention.key_length", metadata.count("embedding_length") / heads);
  metadata.expect("attention.value_length", metadata.count("embedding_length") / heads);
  config.number("rope_theta", double{metadata.optional_number("rope.freq_base").value_or(10000)});
}

std::string GgufModel::config_json() const {
  GgufMetadata metadata(file());
  ConfigWriter config(architecture_->model_type, architecture_->model_class);
  architecture_->describe(*this, metadata, config);
  metadata.reject_unread();
  config.id("bos_token_id", start_ids());
  config.id("eos_token_id", end_ids());
  return config.json();
}

}  // namespace qkv::models
