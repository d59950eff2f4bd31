#include "qkv/models/config.h"

#include <array>
#include <cmath>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/field_text.h"
#include "qkv/models/option_words.h"
#include "qkv/models/validate.h"

namespace qkv::models {
namespace {

// The names of kinds that a Transformer has: it has an activation, and one norm beside each residual.
template <class Enum>
Words<Enum> words_of(Enum kind) {
  return words(kind);
}
Words<Activation> words_of(Activation kind) { return words(kind).subspan(1); }
Words<nn::NormPlacement> words_of(nn::NormPlacement kind) { return words(kind).first(2); }

// The single list of fields, used for reading, writing, setting and printing configurations.
template <class Config, class Visitor>
void visit_config(Config& config, const Visitor& visitor) {
  visitor("source_vocabulary", config.source_vocabulary);
  visitor("target_vocabulary", config.target_vocabulary);
  visitor("d_model", config.d_model);
  visitor("encoder_layers", config.encoder_layers);
  visitor("decoder_layers", config.decoder_layers);
  visitor("heads", config.heads);
  visitor("decoder_heads", config.decoder_heads);
  visitor("d_k", config.d_k);
  visitor("d_v", config.d_v);
  visitor("d_ff", config.d_ff);
  visitor("decoder_d_ff", config.decoder_d_ff);
  visitor("activation", config.activation);
  visitor("gated", config.gated);
  visitor("norm", config.norm);
  visitor("norm_kind", config.norm_kind);
  visitor("epsilon", config.epsilon);
  visitor("bias", config.bias);
  visitor("key_bias", config.key_bias);
  visitor("output_bias", config.output_bias);
  visitor("positions", config.positions);
  visitor("max_positions", config.max_positions);
  visitor("first_position", config.first_position);
  visitor("position_buckets", config.position_buckets);
  visitor("position_max_distance", config.position_max_distance);
  visitor("tying", config.tying);
  visitor("scale_embedding", config.scale_embedding);
  visitor("embedding_norm", config.embedding_norm);
  visitor("scale_attention", config.scale_attention);
  visitor("scale_output", config.scale_output);
  visitor("final_norm", config.final_norm);
  visitor("dropout", config.dropout);
  visitor("embedding_dropout", config.embedding_dropout);
  visitor("attention_dropout", config.attention_dropout);
  visitor("activation_dropout", config.activation_dropout);
  visitor("drop_path", config.drop_path);
  visitor("eos_id", config.eos_id);
  visitor("pad_id", config.pad_id);
  visitor("decoder_start_id", config.decoder_start_id);
  visitor("source_eos", config.source_eos);
  visitor("mel_bins", config.mel_bins);
  visitor("source_positions", config.source_positions);
}

template <class Value>
void assign(std::string_view name, std::string_view text, Value& field) {
  if constexpr (std::is_enum_v<Value>) {
    parse_field(name, text, words_of(field), field);
  } else {
    parse_field(name, text, field);
  }
}

template <class Value>
std::string to_text(Value field) {
  if constexpr (std::is_enum_v<Value>) {
    return field_text(words_of(field), field);
  } else {
    return field_text(field);
  }
}

nn::StackOptions stack(const TransformerConfig& config, int64_t layers, int64_t heads, int64_t d_ff) {
  nn::ProjectionBiases biases = nn::ProjectionBiases::all(config.bias);
  biases.key = config.bias && config.key_bias;
  nn::LayerOptions layer = {.d_model = config.d_model,
                            .heads = heads,
                            .d_k = config.d_k,
                            .d_v = config.d_v,
                            .d_ff = d_ff,
                            .activation = config.activation,
                            .gated = config.gated,
                            .feed_forward_bias = config.bias,
                            .norm = config.norm,
                            .norm_kind = config.norm_kind,
                            .epsilon = config.epsilon,
                            .attention = {.bias = biases,
                                          .positions = {.kind = config.positions,
                                                        .max_positions = config.max_positions,
                                                        .buckets = config.position_buckets,
                                                        .max_distance = config.position_max_distance}},
                            .dropout = config.dropout,
                            .attention_dropout = config.attention_dropout,
                            .activation_dropout = config.activation_dropout};
  if (!config.scale_attention) layer.attention.scale = 1.0f;
  return {.layers = nn::alike(layers, layer),
          .final_norm = config.final_norm || config.norm == nn::NormPlacement::pre,
          .drop_path = config.drop_path,
          .activations = config.activations};
}

struct Preset {
  std::string_view name;
  int64_t layers, d_model, d_ff, heads;
  float dropout;
};

constexpr std::array<Preset, 4> kPresets{{{"tiny", 2, 128, 512, 4, 0.1f},
                                          {"small", 3, 256, 1024, 4, 0.1f},
                                          {"base", 6, 512, 2048, 8, 0.1f},
                                          {"big", 6, 1024, 4096, 16, 0.3f}}};

}  // namespace

void TransformerConfig::validate() const {
  require_at_least("mel_bins", 0, mel_bins);
  require_at_least("source_positions", reads_audio() ? 1 : 0, source_positions);
  if (reads_audio() && (source_vocabulary != 0 || shares_embeddings())) {
    throw UsageError(concat("mel_bins: expected no vocabulary of sources beside audio, found ",
                            source_vocabulary, " entries and tying ", to_text(tying)));
  }
  if (!reads_audio()) require_at_least("source_vocabulary", 1, source_vocabulary);
  require_at_least("target_vocabulary", 1, target_vocabulary);
  require_at_least("d_model", 1, d_model);
  require_at_least("encoder_layers", 0, encoder_layers, nn::kMaxLayers);
  require_at_least("decoder_layers", 1, decoder_layers, nn::kMaxLayers);
  require_at_least("heads", 1, heads, kMaxHeads);
  require_at_least("decoder_heads", 0, decoder_heads, kMaxHeads);
  require_at_least("d_k", 0, d_k);
  require_at_least("d_v", 0, d_v);
  require_at_least("d_ff", 1, d_ff);
  require_at_least("decoder_d_ff", 0, decoder_d_ff);
  require_at_least("first_position", 0, first_position);
  require_at_least("max_positions", 1, max_positions);
  for (const auto& [name, count] : {std::pair{"heads", heads}, {"decoder_heads", decoder_heads}}) {
    if (count == 0) continue;  // the same
    require_at_least("d_k of all heads", 0, count * d_k);
    require_at_least("d_v of all heads", 0, count * d_v);
    if ((d_k == 0 || d_v == 0) && d_model % count != 0) {
      throw UsageError(
          concat(name, ": expected a divisor of d_model ", d_model, " (or d_k and d_v), found ", count));
    }
    const int64_t width = d_k == 0 ? d_model / count : d_k;
    if (positions == nn::PositionKind::rotary && width % 2 != 0)
      throw UsageError(concat("positions: rotary needs an even d_k, found ", width));
  }
  if (positions == nn::PositionKind::sinusoidal_inclusive && (d_model < 4 || d_model % 2 != 0))
    throw UsageError(
        concat("d_model: sinusoidal_inclusive needs an even number of at least 4, found ", d_model));
  if (positions == nn::PositionKind::disentangled)
    throw UsageError("positions: expected another kind, found disentangled, which encoders alone have");
  validate_positions(decoder_stack().first().attention.positions);
  require_epsilon(epsilon);
  require_rate("dropout", dropout);
  require_rate("embedding_dropout", embedding_dropout);
  require_rate("attention_dropout", attention_dropout);
  require_rate("activation_dropout", activation_dropout);
  require_rate("drop_path", drop_path);
  if (shares_embeddings() && source_vocabulary != target_vocabulary) {
    throw UsageError(concat("tying: ", to_text(tying), " needs one vocabulary, found ", source_vocabulary,
                            " source and ", target_vocabulary, " target entries"));
  }
  for (const auto& [name, id] :
       {std::pair{"eos_id", eos_id}, {"pad_id", pad_id}, {"decoder_start_id", decoder_start_id}}) {
    if (id < 0 || id >= target_vocabulary) {
      throw UsageError(concat(name, ": expected an id below ", target_vocabulary, ", found ", id));
    }
  }
}

std::optional<int64_t> TransformerConfig::max_tokens() const {
  switch (positions) {
    case nn::PositionKind::relative:
    case nn::PositionKind::alibi:
    case nn::PositionKind::disentangled:
    case nn::PositionKind::none:
      return std::nullopt;
    default:
      return max_positions;
  }
}

nn::StackOptions TransformerConfig::encoder_stack() const {
  return stack(*this, encoder_layers, heads, d_ff);
}
nn::StackOptions TransformerConfig::decoder_stack() const {
  return stack(*this, decoder_layers, decoder_heads > 0 ? decoder_heads : heads,
               decoder_d_ff > 0 ? decoder_d_ff : d_ff);
}

TransformerConfig preset(std::string_view name) {
  std::string known;
  for (const Preset& entry : kPresets) {
    if (entry.name == name) {
      TransformerConfig config;
      config.encoder_layers = config.decoder_layers = entry.layers;
      config.d_model = entry.d_model;
      config.d_ff = entry.d_ff;
      config.heads = entry.heads;
      config.dropout = config.embedding_dropout = entry.dropout;
      return config;
    }
    known += concat(known.empty() ? "" : ", ", entry.name);
  }
  throw UsageError(concat("preset: expected one of ", known, ", found '", name, "'"));
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& entry : kPresets) names.emplace_back(entry.name);
  return names;
}

bool set_field(TransformerConfig& config, std::string_view name, std::string_view value) {
  bool found = false;
  visit_config(config, [&](std::string_view field_name, auto& field) {
    if (field_name != name) return;
    assign(name, value, field);
    found = true;
  });
  return found;
}

std::vector<std::pair<std::string, std::string>> fields(const TransformerConfig& config) {
  std::vector<std::pair<std::string, std::string>> list;
  visit_config(config,
               [&](std::string_view name, const auto& field) { list.emplace_back(name, to_text(field)); });
  return list;
}

}  // namespace qkv::models
