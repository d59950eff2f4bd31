// The layout of LLaMA (Touvron et al. 2023), which other families share: RMS norms, rotary positions, gated
// feed-forward, grouped-query attention.

#include "qkv/models/families/decoders/llama_family.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/models/hub/config_fields.h"

namespace qkv::models {
namespace {

using Kind = nn::RotaryScalingKind;

constexpr std::array<std::pair<std::string_view, Kind>, 4> kRotaryTypes{
    {{"default", Kind::none}, {"linear", Kind::linear}, {"llama3", Kind::llama3}, {"yarn", Kind::yarn}}};

double number(const ConfigReader& reader, const std::string& key) {
  if (!reader.has(key)) reader.reject(key, "a number");
  return reader.number(key, 0);
}

// The default magnitude in transformers (Peng et al. 2023, section 3.4).
double usual_magnitude(double factor) { return factor > 1 ? 0.1 * std::log(factor) + 1 : 1; }

// "rope_parameters", called "rope_scaling" before transformers 5.
nn::RotaryScaling read_scaling(const ConfigReader& rotary, int64_t max_positions) {
  const std::string old_type = rotary.string("type", "default"), type = rotary.string("rope_type", old_type);
  const auto* known = std::ranges::find(kRotaryTypes, type, &decltype(kRotaryTypes)::value_type::first);
  if (known == kRotaryTypes.end()) {
    rotary.reject(rotary.has("rope_type") ? "rope_type" : "type",
                  "\"default\", \"linear\", \"llama3\" or \"yarn\"");
  }
  nn::RotaryScaling scaling{.kind = known->second};
  if (scaling.kind != Kind::none) scaling.factor = number(rotary, "factor");
  if (scaling.kind == Kind::llama3 || scaling.kind == Kind::yarn)
    scaling.first_positions = rotary.integer("original_max_position_embeddings", max_positions);
  if (scaling.kind == Kind::llama3) {
    scaling.low = number(rotary, "low_freq_factor");
    scaling.high = number(rotary, "high_freq_factor");
  }
  if (scaling.kind == Kind::yarn) {
    scaling.slow = rotary.number("beta_slow", 1);
    scaling.fast = rotary.number("beta_fast", 32);
    scaling.magnitude = rotary.number("attention_factor", usual_magnitude(scaling.factor));
    rotary.require_boolean("truncate", true);
  }
  if (scaling.factor <= 0) rotary.reject("factor", "a number above 0");
  if (scaling.high <= scaling.low) rotary.reject("high_freq_factor", "more than low_freq_factor");
  if (rotary.number("partial_rotary_factor", 1) != 1) rotary.reject("partial_rotary_factor", "1");
  constexpr std::array<std::string_view, 1> kElsewhere{"rope_theta"};
  rotary.reject_unknown_fields(kElsewhere);
  return scaling;
}

nn::PositionOptions read_positions(const ConfigReader& reader, int64_t max_positions) {
  nn::PositionOptions positions{.kind = nn::PositionKind::rotary};
  positions.rotary_base = reader.number("rope_theta", 10000);
  if (reader.has("rope_scaling"))
    positions.rotary_scaling = read_scaling(reader.object("rope_scaling"), max_positions);
  if (reader.has("rope_parameters")) {
    const ConfigReader rotary = reader.object("rope_parameters");
    positions.rotary_scaling = read_scaling(rotary, max_positions);
    positions.rotary_base = rotary.number("rope_theta", positions.rotary_base);
  }
  return positions;
}

ConfigWriter rotary_words(const nn::PositionOptions& positions) {
  const nn::RotaryScaling& scaling = positions.rotary_scaling;
  ConfigWriter rotary;
  for (const auto& [word, kind] : kRotaryTypes) {
    if (kind == scaling.kind) rotary.string("rope_type", word);
  }
  rotary.number("rope_theta", positions.rotary_base);
  if (scaling.kind == Kind::none) return rotary;
  rotary.number("factor", scaling.factor);
  if (scaling.kind == Kind::linear) return rotary;
  rotary.integer("original_max_position_embeddings", scaling.first_positions);
  if (scaling.kind == Kind::llama3) {
    rotary.number("low_freq_factor", scaling.low);
    rotary.number("high_freq_factor", scaling.high);
  } else {
    rotary.number("beta_slow", scaling.slow);
    rotary.number("beta_fast", scaling.fast);
    rotary.number("attention_factor", scaling.magnitude);
  }
  return rotary;
}

template <class Fields, class Config>
void visit_llama_fields(const Fields& fields, Config& config, Blocks& blocks, const LlamaDefaults& defaults) {
  nn::LayerOptions& layer = blocks.layer;
  fields("vocab_size", config.vocabulary);
  fields("max_position_embeddings", config.max_positions, defaults.max_positions);
  fields("hidden_size", layer.d_model);
  fields("intermediate_size", layer.d_ff);
  fields("num_hidden_layers", blocks.layers);
  fields("num_attention_heads", layer.heads);
  fields("num_key_value_heads", layer.key_heads, defaults.key_heads > 0 ? defaults.key_heads : layer.heads);
  fields("head_dim", layer.d_k, layer.heads > 0 ? layer.d_model / layer.heads : 0);
  fields("hidden_act", layer.activation, "silu");
  fields("rms_norm_eps", layer.epsilon, 1e-6);
  fields("attention_dropout", layer.attention_dropout, 0);
  fields("tie_word_embeddings", config.tied, false);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
}

}  // namespace

LanguageModelConfig parse_llama_fields(const ConfigReader& reader, const LlamaDefaults& defaults) {
  LanguageModelConfig config{.embedding = {.scale = false, .positions = {}}, .decoder = {.final_norm = true}};
  Blocks blocks{.layer = {.gated = true,
                          .feed_forward_bias = false,
                          .norm = nn::NormPlacement::pre,
                          .norm_kind = nn::NormKind::rms,
                          .attention = {.bias = nn::ProjectionBiases::all(false)}}};
  nn::LayerOptions& layer = blocks.layer;
  visit_llama_fields(FieldReader(reader), config, blocks, defaults);
  layer.d_v = layer.d_k;
  layer.attention.positions = read_positions(reader, config.max_positions);
  config.decoder.layers = blocks.list();
  config.embedding.d_model = layer.d_model;
  reader.require_boolean("is_encoder_decoder", false);
  if (reader.number("partial_rotary_factor", 1) != 1) reader.reject("partial_rotary_factor", "1");
  return config;
}

ConfigWriter serialize_llama_fields(const LanguageModelConfig& config, const char* family,
                                    const char* architecture) {
  Blocks blocks = Blocks::of(config.decoder);
  nn::LayerOptions& layer = blocks.layer;
  const int64_t width = layer.d_k > 0 ? layer.d_k : layer.d_model / layer.heads;
  const bool fits = config.embedding.positions.kind == nn::PositionKind::none && !config.embedding.scale &&
                    config.embedding.token_types == 0 && !config.embedding.norm &&
                    config.decoder.final_norm && layer.norm == nn::NormPlacement::pre &&
                    layer.norm_kind == nn::NormKind::rms && layer.gated &&
                    layer.attention.positions.kind == nn::PositionKind::rotary && !layer.attention.scale &&
                    layer.attention.softcap == 0 && config.logit_softcap == 0 && is_plain_block(layer) &&
                    width == (layer.d_v > 0 ? layer.d_v : layer.d_model / layer.heads);
  if (!fits) {
    throw UsageError(concat(family,
                            ": expected rotary positions and pre-norm blocks with RMS norms and gated ",
                            "feed-forwards, found another model"));
  }
  const ConfigWriter rotary = rotary_words(layer.attention.positions);
  ConfigWriter writer(family, architecture);
  layer.d_k = width;
  if (layer.key_heads == 0) layer.key_heads = layer.heads;
  visit_llama_fields(FieldWriter(writer), config, blocks, {});
  writer.object("rope_parameters", rotary);
  // For older programs.
  writer.number("rope_theta", layer.attention.positions.rotary_base);
  if (layer.attention.positions.rotary_scaling.kind != Kind::none) writer.object("rope_scaling", rotary);
  return writer;
}

WeightMap llama_weight_map(const LanguageModelConfig& config) {
  return {.rules = {{.ours = "embed_tokens", .theirs = "model.embed_tokens", .also = tied_head(config)},
                    {"decoder.layers.#.self_attn_layer_norm", "model.layers.#.input_layernorm"},
                    {"decoder.layers.#.self_attn.q_proj", "model.layers.#.self_attn.q_proj"},
                    {"decoder.layers.#.self_attn.k_proj", "model.layers.#.self_attn.k_proj"},
                    {"decoder.layers.#.self_attn.v_proj", "model.layers.#.self_attn.v_proj"},
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

}  // namespace qkv::models
