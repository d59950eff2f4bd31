#include "qkv/models/families/decoders/llama_family.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/models/hub/settings.h"

namespace qkv::models {
namespace {

using Kind = nn::RotaryScalingKind;

constexpr std::array<std::pair<std::string_view, Kind>, 6> kRotaryTypes{{{"default", Kind::none},
                                                                         {"linear", Kind::linear},
                                                                         {"llama3", Kind::llama3},
                                                                         {"yarn", Kind::yarn},
                                                                         {"longrope", Kind::longrope},
                                                                         {"su", Kind::longrope}}};

// The default magnitude in transformers (Peng et al. 2023, section 3.4).
double usual_magnitude(double factor) { return factor > 1 ? 0.1 * std::log(factor) + 1 : 1; }

// "mscale" m: the magnitude is the usual one with m ln(factor), divided by that of "mscale_all_dim".
double usual_magnitude(const Fields& fields, double factor) {
  double scale = 0, whole = 0;
  if (fields.reads()) {
    fields("mscale", scale, 0);
    fields("mscale_all_dim", whole, 0);
  }
  if (scale == 0 || whole == 0 || factor <= 1) return usual_magnitude(factor);
  return (scale * 0.1 * std::log(factor) + 1) / (whole * 0.1 * std::log(factor) + 1);
}

// "mscale_all_dim" m: the scores are multiplied by the square of the usual magnitude with m ln(factor).
void score_field(const Fields& fields, nn::LayerOptions& layer, double factor) {
  const double plain = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(layer.d_k, 1))),
               steps = 0.1 * std::log(factor);
  std::optional<float>& scale = layer.attention.scale;
  const auto scaled = [&](double m) { return static_cast<float>(plain * (m * steps + 1) * (m * steps + 1)); };
  double m = 0;
  if (!fields.reads() && scale && steps > 0) {
    m = (std::sqrt(double{*scale} / plain) - 1) / steps;
    // That of few digits, if there is one with this effect.
    if (const double brief = std::round(1e4 * m) / 1e4; scaled(brief) == *scale) m = brief;
  }
  if (fields.reads() || m != 0) fields("mscale_all_dim", m, 0);
  if (m != 0 && steps > 0) scale = scaled(m);
}

// The base that has the effect of Hunyuan's "alpha", if the type is "dynamic".
bool alpha_fields(const Fields& fields, nn::LayerOptions& layer) {
  std::string type = "default";
  if (fields.reads()) fields({"rope_type", "type"}, type, type);
  if (type != "dynamic") return false;
  double alpha = 0, d = static_cast<double>(layer.d_k);
  double& base = layer.attention.positions.rotary_base;
  fields("rope_theta", base, base);
  fields("alpha", alpha, 0);
  fields.require("alpha", alpha > 0 && d > 2, "a number above 0");
  base *= std::pow(alpha, d / (d - 2));
  fields.irrelevant("factor beta_fast beta_slow mscale mscale_all_dim");  // of other types
  return true;
}

// Of all positions, those to which longrope's first_positions may extend.
int64_t all_positions(const LanguageModelConfig& config, const nn::RotaryScaling& scaling) {
  if (scaling.kind != Kind::longrope) return config.max_positions;
  return std::llround(scaling.factor * static_cast<double>(scaling.first_positions));
}

void longrope_fields(const Fields& fields, nn::RotaryScaling& scaling, int64_t features, int64_t all,
                     bool magnitudes) {
  const auto first = static_cast<double>(scaling.first_positions);
  fields.require("original_max_position_embeddings", scaling.first_positions > 1, "at least 2");
  scaling.factor = static_cast<double>(all) / first;
  double factor = scaling.factor;  // of the magnitude alone
  if (fields.reads()) fields("factor", factor, factor);
  if (magnitudes) {
    fields("short_mscale", scaling.magnitude);
    fields("long_mscale", scaling.long_magnitude);
  } else {
    fields("attention_factor", scaling.magnitude,
           factor > 1 ? std::sqrt(1 + std::log(factor) / std::log(first)) : 1);
  }
  for (const auto& [key, factors] :
       {std::pair("short_factor", &scaling.short_factors), {"long_factor", &scaling.long_factors}}) {
    fields(key, *factors);
    const bool positive = std::ranges::all_of(*factors, [](double number) { return number > 0; });
    fields.require(key, positive && 2 * std::ssize(*factors) == features,
                   concat(features / 2, " numbers above 0"));
  }
}

// The rotated features of a head: transformers rounds their number down.
int64_t rotated(int64_t d_k, double share) { return static_cast<int64_t>(static_cast<double>(d_k) * share); }

double share_of(const nn::LayerOptions& layer) {
  const int64_t features = layer.attention.positions.rotary_features;
  if (features == 0 || layer.d_k == 0) return 1;
  const double share = static_cast<double>(features) / static_cast<double>(layer.d_k);
  return rotated(layer.d_k, share) == features ? share : std::nextafter(share, 1);
}

// The features stay 1, which is refused, where the share is none. `last`: no other object may have the field.
void share_field(const Fields& fields, nn::LayerOptions& layer, const LlamaDefaults& defaults, double usual,
                 bool last) {
  if (defaults.rotary_share == 0) return fields.expect("partial_rotary_factor", 1.0);
  double share = share_of(layer);
  fields(defaults.share_field, share, usual);
  const int64_t features = share > 0 && share <= 1 ? rotated(layer.d_k, share) : 0;
  if (last)
    fields.require(defaults.share_field, features >= 2 && features % 2 == 0,
                   concat("an even share of the ", layer.d_k, " features of a head"));
  layer.attention.positions.rotary_features = features == layer.d_k ? 0 : std::max<int64_t>(features, 1);
}

void rotary_fields(const Fields& fields, nn::LayerOptions& layer, const LlamaDefaults& defaults, int64_t all,
                   int64_t first) {
  nn::PositionOptions& positions = layer.attention.positions;
  nn::RotaryScaling& scaling = positions.rotary_scaling;
  if (fields.reads()) scaling = {};
  if (defaults.fixed_alpha && alpha_fields(fields, layer)) return;
  fields({"rope_type", "type"}, scaling.kind, Words<Kind>(kRotaryTypes), Kind::none);
  fields("rope_theta", positions.rotary_base, positions.rotary_base);
  share_field(fields, layer, defaults, share_of(layer), true);
  if (first > 0 && scaling.kind == Kind::yarn) scaling.kind = Kind::longrope;  // its first name
  if (scaling.kind == Kind::llama3 || scaling.kind == Kind::yarn || scaling.kind == Kind::longrope) {
    fields("original_max_position_embeddings", scaling.first_positions, all);
    if (fields.reads() && first > 0) scaling.first_positions = first;
  }
  if (scaling.kind == Kind::longrope)
    return longrope_fields(fields, scaling,
                           positions.rotary_features > 0 ? positions.rotary_features : layer.d_k, all,
                           defaults.magnitudes);
  if (scaling.kind != Kind::none) fields("factor", scaling.factor);
  if (scaling.kind == Kind::llama3) {
    fields("low_freq_factor", scaling.low);
    fields("high_freq_factor", scaling.high);
  }
  if (scaling.kind == Kind::yarn) {
    fields("beta_slow", scaling.slow, 1);
    fields("beta_fast", scaling.fast, 32);
    fields("attention_factor", scaling.magnitude, usual_magnitude(fields, scaling.factor));
    if (defaults.scaled_scores) score_field(fields, layer, scaling.factor);
    if (fields.reads() || !scaling.truncate) fields("truncate", scaling.truncate, true);
    if (defaults.query_growth) fields("llama_4_scaling_beta", scaling.query_growth);
    fields.irrelevant("max_position_embeddings");
  }
  fields.require("factor", scaling.factor > 0, "a number above 0");
  fields.require("high_freq_factor", scaling.high >= scaling.low, "at least low_freq_factor");
}

// With both objects, transformers reads "rope_scaling" alone.
void require_one_meaning(const Fields& fields, const nn::PositionOptions& scaling,
                         const nn::PositionOptions& parameters) {
  fields.require("rope_scaling",
                 fields.absent("rope_scaling") || fields.absent("rope_parameters") || scaling == parameters,
                 "null, or the positions that rope_parameters describes");
}

}  // namespace

Described<LanguageModelConfig> llama_base() {
  return {.config = {.embedding = {.positions = {}}, .decoder = {.final_norm = true}},
          .layer = {.gated = true,
                    .feed_forward_bias = false,
                    .norm = nn::NormPlacement::pre,
                    .norm_kind = nn::NormKind::rms,
                    .attention = {.bias = nn::ProjectionBiases::all(false),
                                  .positions = {.kind = nn::PositionKind::rotary}}}};
}

Described<LanguageModelConfig> biased_base() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.gated = false;
  model.layer.feed_forward_bias = true;
  model.layer.norm_kind = nn::NormKind::layer;
  model.layer.attention.bias = {};
  return model;
}

void position_fields(const Fields& fields, Described<LanguageModelConfig>& model,
                     const LlamaDefaults& defaults) {
  auto& [config, layer, layers] = model;
  const nn::RotaryScaling& scaling = layer.attention.positions.rotary_scaling;
  int64_t all = all_positions(config, scaling);
  fields(defaults.positions_field, all, defaults.max_positions);
  int64_t first = scaling.kind == Kind::longrope ? scaling.first_positions : all;
  if (defaults.first_positions > 0)
    fields("original_max_position_embeddings", first, defaults.first_positions);
  share_field(fields, layer, defaults, defaults.rotary_share,
              fields.absent("rope_scaling") && fields.absent("rope_parameters"));
  // "rope_parameters" was called "rope_scaling" before transformers 5, and "rope_theta" was beside it.
  fields(defaults.base_field, layer.attention.positions.rotary_base, defaults.rotary_base);
  const auto rotary = [&](const Fields& inner) {
    rotary_fields(inner, model.layer, defaults, all, defaults.first_positions > 0 ? first : 0);
  };
  if (fields.reads() || scaling.kind != Kind::none) fields.object("rope_scaling", rotary);
  const nn::PositionOptions older = layer.attention.positions;
  fields.object("rope_parameters", rotary);
  require_one_meaning(fields, older, layer.attention.positions);
  config.max_positions = scaling.kind == Kind::longrope ? std::min(all, scaling.first_positions) : all;
}

void llama_sizes(const Fields& fields, Described<LanguageModelConfig>& model, const LlamaDefaults& defaults) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  fields("hidden_size", layer.d_model);
  if (defaults.dense_width) fields("intermediate_size", layer.d_ff);
  fields(defaults.layers_field, layers);
  // Families have lists with an entry for each layer.
  fields.require(defaults.layers_field, layers <= nn::kMaxLayers, concat("at most ", nn::kMaxLayers));
  layers = std::min(layers, nn::kMaxLayers);
  fields("num_attention_heads", layer.heads);
  const bool as_heads = defaults.key_heads == 0 || fields.is_null("num_key_value_heads");
  fields("num_key_value_heads", layer.key_heads, as_heads ? layer.heads : defaults.key_heads);
  fields("head_dim", layer.d_k,
         defaults.head_width > 0 && !fields.is_null("head_dim") ? defaults.head_width
         : layer.heads > 0                                      ? layer.d_model / layer.heads
                                                                : 0);
  if (defaults.activation_field != nullptr)
    fields(defaults.activation_field, layer.activation, defaults.activation);
  fields(defaults.epsilon_field, layer.epsilon, defaults.epsilon);
  fields("attention_dropout", layer.attention_dropout, 0);
  fields("tie_word_embeddings", config.tied, defaults.tied);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
  layer.d_v = layer.d_k;
}

void rotary_fields_by_kind(const Fields& fields, Described<LanguageModelConfig>& model,
                           const LlamaDefaults& defaults, const char* local_field, double local) {
  int64_t& most = model.config.max_positions;
  nn::LayerOptions everywhere = model.layer, windowed = model.layer;
  double &base = everywhere.attention.positions.rotary_base,
         &local_base = windowed.attention.positions.rotary_base;
  std::vector<nn::LayerOptions>& stack = model.config.decoder.layers;
  if (!fields.reads()) {
    for (const nn::LayerOptions& layer : stack) (layer.attention.window > 0 ? windowed : everywhere) = layer;
  }
  fields("max_position_embeddings", most, defaults.max_positions);
  fields(defaults.base_field, base, defaults.rotary_base);
  if (local_field != nullptr) {
    fields(local_field, local_base, local);
  } else if (fields.reads()) {
    local_base = base;
  }
  const auto within = [&](nn::LayerOptions& layer) {
    return [&](const Fields& inner) { rotary_fields(inner, layer, defaults, most, 0); };
  };
  if (fields.reads() || everywhere.attention.positions.rotary_scaling.kind != Kind::none)
    fields.object("rope_scaling", within(everywhere));
  const nn::PositionOptions older = everywhere.attention.positions;
  fields.object("rope_parameters", [&](const Fields& kinds) {
    kinds.object("full_attention", within(everywhere));
    kinds.object("sliding_attention", within(windowed));
  });
  require_one_meaning(fields, older, everywhere.attention.positions);
  for (nn::LayerOptions& layer : stack)
    layer.attention.positions = (layer.attention.window > 0 ? windowed : everywhere).attention.positions;
}

void rotary_kinds(const Fields& fields, Described<LanguageModelConfig>& model,
                  const LlamaDefaults& defaults) {
  fields.require("rope_parameters", !fields.absent("rope_parameters"), "an object for each kind of layer");
  for (const char* older : {"rope_scaling", "rope_theta"})
    fields.require(older, fields.absent(older), "null");
  rotary_fields_by_kind(fields, model, defaults);
  if (!fields.reads()) fields.writer()->omit("rope_scaling rope_theta");
}

void describe_rotary_layer(const Fields& fields, Described<LanguageModelConfig>& model) {
  for (const nn::LayerOptions& layer : model.config.decoder.layers) {
    if (fields.reads() || layer.attention.positions.kind != nn::PositionKind::rotary) continue;
    model.layer = resolved(layer);
    return;
  }
}

void llama_fields(const Fields& fields, Described<LanguageModelConfig>& model,
                  const LlamaDefaults& defaults) {
  llama_sizes(fields, model, defaults);
  position_fields(fields, model, defaults);
}

void layer_types(const Fields& fields, Described<LanguageModelConfig>& model, int64_t window,
                 const std::function<bool(int64_t)>& usual) {
  const std::string all = "full_attention", near = "sliding_attention";
  std::vector<nn::LayerOptions>& layers = model.config.decoder.layers;
  std::vector<std::string> kinds;
  if (!fields.reads()) {
    for (const nn::LayerOptions& layer : layers) kinds.push_back(layer.attention.window > 0 ? near : all);
  }
  fields("layer_types", kinds);
  if (!fields.reads()) return;
  if (layers.empty()) layers = nn::alike(model.layers, model.layer);
  for (int64_t i = 0; i < model.layers && fields.absent("layer_types"); ++i)
    kinds.push_back(usual(i) ? near : all);
  fields.require("layer_types", std::ssize(kinds) == model.layers, concat(model.layers, " kinds"));
  for (size_t i = 0; i < std::min(kinds.size(), layers.size()); ++i) {
    fields.require("layer_types", kinds[i] == all || (kinds[i] == near && window > 0),
                   window > 0 ? concat(all, " or ", near) : concat(all, ", as there is no window"));
    layers[i].attention.window = kinds[i] == near ? window : 0;
  }
}

int64_t window_of(const LanguageModelConfig& config) {
  for (const nn::LayerOptions& layer : config.decoder.layers) {
    if (layer.attention.window > 0) return layer.attention.window;
  }
  return 0;
}

void sliding_window(const Fields& fields, Described<LanguageModelConfig>& model, int64_t otherwise,
                    const std::function<bool(int64_t)>& usual) {
  int64_t window = window_of(model.config);
  // transformers requires a number, even if no layer uses it.
  if (fields.reads() || window > 0) fields.count_or_null("sliding_window", window, otherwise);
  layer_types(fields, model, window, [&](int64_t i) { return window > 0 && usual(i); });
}

void placed_windows(const Fields& fields, Described<LanguageModelConfig>& model, int64_t otherwise,
                    const std::function<bool(int64_t)>& usual) {
  int64_t window = window_of(model.config);
  const bool placed = model.config.decoder.first().attention.positions.kind == nn::PositionKind::rotary;
  if (!fields.reads() && window == 0 && !placed) window = otherwise;
  fields.count_or_null("sliding_window", window, otherwise);
  layer_types(fields, model, window, [&](int64_t i) { return window > 0 && usual(i); });
  for (nn::LayerOptions& layer : model.config.decoder.layers) {
    if (window > 0 && layer.attention.window == 0) layer.attention.positions = {};
  }
}

void exaone_windows(const Fields& fields, Described<LanguageModelConfig>& model) {
  int64_t interval = 4;
  if (fields.absent("layer_types") && fields.reads()) fields("sliding_window_pattern", interval, interval);
  fields.require("sliding_window_pattern", interval >= 1, "at least 1");
  fields.irrelevant("sliding_window_pattern");  // beside the list, a word ("LLLG") or a number
  placed_windows(fields, model, 4096, [&](int64_t i) { return (i + 1) % interval != 0; });
}

int64_t optional_window(const Fields& fields, const LanguageModelConfig& config, int64_t usual) {
  int64_t window = window_of(config);
  bool used = window > 0;
  fields("use_sliding_window", used, false);
  fields.count_or_null("sliding_window", window, usual);
  return used ? window : 0;
}

void upper_windows(const Fields& fields, Described<LanguageModelConfig>& model) {
  const int64_t window = optional_window(fields, model.config, 4096);
  int64_t first = 28;
  if (!fields.reads()) {
    const auto windowed = [](const nn::LayerOptions& layer) { return layer.attention.window > 0; };
    const auto& layers = model.config.decoder.layers;
    first = std::ranges::find_if(layers, windowed) - layers.begin();
  }
  fields("max_window_layers", first, first);
  layer_types(fields, model, window, [&](int64_t i) { return window > 0 && i >= first; });
}

void attention_bias(const Fields& fields, nn::LayerOptions& layer, bool otherwise) {
  bool bias = layer.attention.bias.query;
  fields("attention_bias", bias, otherwise);
  layer.attention.bias = nn::ProjectionBiases::all(bias);
}

void input_bias(const Fields& fields, nn::LayerOptions& layer, const Fields::Key& key, bool otherwise) {
  bool bias = layer.attention.bias.query;
  fields(key, bias, otherwise);
  layer.attention.bias = {.query = bias, .key = bias, .value = bias, .output = false};
}

void query_key_layer_norm(const Fields& fields, nn::LayerOptions& layer, bool otherwise) {
  nn::QueryKeyNorm& norm = layer.attention.query_key_norm;
  bool normed = norm == nn::QueryKeyNorm::head;
  fields("qk_layernorm", normed, otherwise);
  norm = normed ? nn::QueryKeyNorm::head : nn::QueryKeyNorm::none;
}

WeightMap with_query_key_layer_norm(WeightMap map) {
  return with_rules({{"decoder.layers.#.self_attn.q_norm", "model.layers.#.self_attn.q_layernorm"},
                     {"decoder.layers.#.self_attn.k_norm", "model.layers.#.self_attn.k_layernorm"}},
                    std::move(map));
}

void require_usual_heads(const Fields& fields, const nn::LayerOptions& layer) {
  fields.require("num_key_value_heads", layer.key_heads == layer.heads, "num_attention_heads");
  fields.require("head_dim", layer.d_k * layer.heads == layer.d_model, "hidden_size / num_attention_heads");
}

WeightMap llama_weight_map(const LanguageModelConfig& config) {
  return {.rules = {{.ours = "embed_tokens", .theirs = "model.embed_tokens", .also = tied_head(config)},
                    {"decoder.layers.#.self_attn_layer_norm", "model.layers.#.input_layernorm"},
                    {"decoder.layers.#.self_attn.q_proj", "model.layers.#.self_attn.q_proj"},
                    {"decoder.layers.#.self_attn.k_proj", "model.layers.#.self_attn.k_proj"},
                    {"decoder.layers.#.self_attn.v_proj", "model.layers.#.self_attn.v_proj"},
                    {"decoder.layers.#.self_attn.q_norm", "model.layers.#.self_attn.q_norm"},
                    {"decoder.layers.#.self_attn.k_norm", "model.layers.#.self_attn.k_norm"},
                    {"decoder.layers.#.self_attn.out_proj", "model.layers.#.self_attn.o_proj"},
                    {"decoder.layers.#.final_layer_norm", "model.layers.#.post_attention_layernorm"},
                    {"decoder.layers.#.gate", "model.layers.#.mlp.gate_proj"},
                    {"decoder.layers.#.fc1", "model.layers.#.mlp.up_proj"},
                    {"decoder.layers.#.fc2", "model.layers.#.mlp.down_proj"},
                    {"decoder.layer_norm", "model.norm"},
                    {"lm_head", "lm_head"}},
          .prefix = "model.",
          .computed = {"rotary_emb.inv_freq"}};
}

WeightMap output_norm_weight_map(const LanguageModelConfig& config) {
  return with_rules({{"decoder.layers.#.self_attn_output_norm", "model.layers.#.post_attention_layernorm"},
                     {"decoder.layers.#.final_layer_norm", "model.layers.#.pre_feedforward_layernorm"},
                     {"decoder.layers.#.final_output_norm", "model.layers.#.post_feedforward_layernorm"}},
                    llama_weight_map(config));
}

WeightMap with_pairs(WeightMap map, const LanguageModelConfig& config) {
  const nn::LayerOptions layer = resolved(config.decoder.first());
  const int64_t features = layer.attention.positions.rotary_features;
  for (WeightRule& rule : map.rules) {
    const bool query = rule.ours.ends_with("q_proj"), key = rule.ours.ends_with("k_proj");
    if (query || key)
      rule.paired = {query ? layer.heads : layer.key_heads, features > 0 ? features : layer.d_k};
  }
  return map;
}

WeightMap with_fused_gate(WeightMap map, const LanguageModelConfig& config) {
  const int64_t width = config.decoder.first().d_ff;
  return with_rules(concatenated("model.layers.#.mlp.gate_up_proj", Layout::same,
                                 {{"decoder.layers.#.gate", width}, {"decoder.layers.#.fc1", width}}),
                    std::move(map));
}

WeightMap with_rules(std::vector<WeightRule> rules, WeightMap map) {
  map.rules.insert(map.rules.begin(), rules.begin(), rules.end());
  return map;
}

}  // namespace qkv::models
