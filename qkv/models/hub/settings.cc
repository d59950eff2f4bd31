#include "qkv/models/hub/settings.h"

#include <algorithm>

#include "qkv/base/field_text.h"
#include "qkv/models/hub/config_fields.h"
#include "qkv/models/option_words.h"

namespace qkv::models {
namespace {

template <class Enum>
std::string name_of(Enum value) {
  return field_text(words(value), value);
}
std::string name_of(Activation value) { return activation_name(value); }

template <class Number>
std::string numbers_text(const std::vector<Number>& numbers) {
  std::string text = "[";
  for (const Number number : numbers) text += concat(text.size() == 1 ? "" : ", ", field_text(number));
  return text + "]";
}

class List;
void add(List& list, const nn::PositionOptions& options);
void add(List& list, const nn::AttentionVariant& attention);
void add(List& list, const nn::ExpertOptions& experts);
void add(List& list, const nn::LayerOptions& layer);
void add(List& list, const nn::StackOptions& stack);
void add(List& list, const nn::EmbeddingConfig& embedding);

class List {
 public:
  // Names and values in turn.
  template <class Value, class... Rest>
  void operator()(const std::string& name, const Value& value, const Rest&... rest) {
    if constexpr (std::is_enum_v<Value>) {
      all_.emplace_back(prefix_ + name, name_of(value));
    } else {
      all_.emplace_back(prefix_ + name, field_text(value));
    }
    if constexpr (sizeof...(rest) > 0) (*this)(rest...);
  }
  template <class Options>
  void within(const std::string& prefix, const Options& options) {
    const std::string outer = prefix_;
    prefix_ += prefix + ".";
    add(*this, options);
    prefix_ = outer;
  }
  Settings take() { return std::move(all_); }

 private:
  std::string prefix_;
  Settings all_;
};

// A new member of these structs does not compile before it is listed here.
void add(List& list, const nn::PositionOptions& options) {
  const auto& [kind, max_positions, first_row, pad_id, rotary_base, scaling, rotary_features, rotary_angles,
               rotary_backwards, alibi_scaled, buckets, max_distance, distance_norm] = options;
  list("kind", kind);
  if (kind == nn::PositionKind::alibi) list("alibi_scaled", alibi_scaled);
  if (kind == nn::PositionKind::sinusoidal_inclusive) list("first_row", first_row);
  if (kind == nn::PositionKind::learned) {
    list("max_positions", max_positions, "first_row", first_row, "pad_id", pad_id);
  } else if (kind == nn::PositionKind::rotary) {
    list("rotary_base", rotary_base, "rotary_features", rotary_features, "rotary_angles", rotary_angles,
         "rotary_backwards", rotary_backwards, "rotary_scaling", scaling.kind, "rotary_scaling.query_growth",
         scaling.query_growth);
    if (scaling.kind == nn::RotaryScalingKind::none) return;
    list("rotary_scaling.factor", scaling.factor, "rotary_scaling.first_positions", scaling.first_positions,
         "rotary_scaling.low", scaling.low, "rotary_scaling.high", scaling.high, "rotary_scaling.slow",
         scaling.slow, "rotary_scaling.fast", scaling.fast, "rotary_scaling.magnitude", scaling.magnitude,
         "rotary_scaling.short_factors", numbers_text(scaling.short_factors), "rotary_scaling.long_factors",
         numbers_text(scaling.long_factors), "rotary_scaling.long_magnitude", scaling.long_magnitude,
         "rotary_scaling.truncate", scaling.truncate);
  } else if (kind == nn::PositionKind::disentangled) {
    list("buckets", buckets, "max_distance", max_distance, "distance_norm", distance_norm);
  } else if (kind == nn::PositionKind::relative) {
    list("buckets", buckets, "max_distance", max_distance);
  }
}

void add(List& list, const nn::AttentionVariant& attention) {
  const auto& [bias, positions, scale, softcap, window, query_key_norm, clip, sinks, keys_as_values,
               value_norm, value_scale, latent] = attention;
  list("bias.query", bias.query, "bias.key", bias.key, "bias.value", bias.value, "bias.output", bias.output);
  list.within("positions", attention.positions);
  list("scale", scale ? field_text(*scale) : "1/sqrt(d_k)", "softcap", softcap, "window", window,
       "query_key_norm", query_key_norm, "clip", clip, "sinks", sinks, "keys_as_values", keys_as_values,
       "value_norm", value_norm, "value_scale", value_scale, "latent.rank", latent.rank, "latent.query_rank",
       latent.query_rank);
}

void add(List& list, const nn::ExpertOptions& experts) {
  const auto& [count, per_token, normalise, sigmoid, scale, groups, group_choices, group_scores, sparse_mixer,
               router_bias, correction_bias, corrects_logits, weighs_inputs, shared_d_ff, shared_gate,
               shared_mean] = experts;
  list("count", count, "per_token", per_token, "normalise", normalise, "sigmoid", sigmoid, "scale", scale,
       "groups", groups, "group_choices", group_choices, "group_scores", group_scores, "sparse_mixer",
       sparse_mixer, "router_bias", router_bias, "correction_bias", correction_bias, "corrects_logits",
       corrects_logits, "weighs_inputs", weighs_inputs, "shared_d_ff", shared_d_ff, "shared_gate",
       shared_gate, "shared_mean", shared_mean);
}

void add(List& list, const nn::LayerOptions& layer) {
  const nn::LayerOptions options = resolved(layer);
  const auto& [d_model, heads, key_heads, d_k, d_v, d_ff, activation, gated, clamp, xielu, feed_forward_bias,
               inner_bias, experts, norm, norm_kind, epsilon, norm_bias, norm_weight, attention_norm,
               feed_forward_output_norm, order, residual_scale, layer_scalar, layer_scale, attention,
               reads_memory, dropout, attention_dropout, activation_dropout, drop_path] = options;
  list("norm", norm, "norm_kind", norm_kind, "epsilon", epsilon, "norm_bias", norm_bias, "norm_weight",
       norm_weight, "attention_norm", attention_norm, "feed_forward_output_norm", feed_forward_output_norm,
       "d_model", d_model, "heads", heads, "key_heads", key_heads, "d_k", d_k, "d_v", d_v, "d_ff", d_ff,
       "activation", activation, "gated", gated, "xielu", xielu, "feed_forward_bias", feed_forward_bias,
       "inner_bias", inner_bias, "order", order, "residual_scale", residual_scale, "layer_scalar",
       layer_scalar, "layer_scale", layer_scale);
  if (clamp.limit > 0) list("gate_clamp.limit", clamp.limit, "gate_clamp.alpha", clamp.alpha);
  if (experts.count > 0) list.within("experts", experts);
  list.within("attention", options.attention);
}

void add(List& list, const nn::StackOptions& stack) {
  list("final_norm", stack.final_norm, "repeats", stack.repeats, "layers", stack.size());
  for (size_t i = 0; i < stack.layers.size(); ++i) list.within(concat("layers.", i), stack.layers[i]);
}

void add(List& list, const nn::EmbeddingConfig& embedding) {
  const auto& [d_model, factor, positions, token_types, norm, norm_kind, norm_weight, norm_bias, epsilon,
               dropout, width] = embedding;
  list("d_model", d_model, "factor", factor, "width", embedding.table_width());
  list.within("positions", positions);
  list("token_types", token_types, "norm", norm);
  if (norm)
    list("epsilon", epsilon, "norm_kind", norm_kind, "norm_weight", norm_weight, "norm_bias", norm_bias);
}

void add(List& list, const std::vector<std::string>& labels, ProblemType problem) {
  list("labels", std::ssize(labels));
  for (size_t i = 0; i < labels.size(); ++i) list(concat("labels.", i), labels[i]);
  if (labels.empty()) return;
  // With one label, single-label classification is a yes-or-no decision.
  const bool decision = labels.size() == 1 && problem == ProblemType::single_label;
  list("problem", decision ? ProblemType::multi_label : problem);
}

}  // namespace

nn::LayerOptions resolved(nn::LayerOptions layer) {
  const int64_t width = layer.d_model / std::max<int64_t>(layer.heads, 1);
  if (layer.key_heads == 0) layer.key_heads = layer.heads;
  if (layer.d_k == 0) layer.d_k = width;
  if (layer.d_v == 0) layer.d_v = width;
  return layer;
}

Settings settings_of(const LanguageModelConfig& config) {
  const auto& [vocabulary, max_positions, embedding, decoder, causal, tied, logit_bias, logit_scale,
               logit_softcap, logit_layer, bos_ids, eos_ids] = config;
  List list;
  list.within("embedding", embedding);
  list.within("decoder", decoder);
  list("vocabulary", vocabulary, "max_positions", max_positions, "causal", causal, "tied", tied, "logit_bias",
       logit_bias, "logit_scale", logit_scale, "logit_softcap", logit_softcap, "logit_layer",
       logit_layer.has_value(), "bos_ids", numbers_text(bos_ids), "eos_ids", numbers_text(eos_ids));
  if (logit_layer) {
    const auto& [width, activation, bias, epsilon, norm_bias] = *logit_layer;
    list("logit_layer.width", width, "logit_layer.activation", activation, "logit_layer.bias", bias,
         "logit_layer.epsilon", epsilon, "logit_layer.norm_bias", norm_bias);
  }
  return list.take();
}

Settings settings_of(const TextEncoderConfig& config) {
  List list;
  list.within("embedding", config.embedding);
  list.within("encoder", config.encoder);
  list("vocabulary", config.vocabulary, "max_positions",
       config.max_positions ? field_text(*config.max_positions) : "unlimited", "pooler", config.pooler);
  if (config.pooler)
    list("pooler_activation", config.pooler_activation, "pooler_norm", config.pooler_norm, "pooled_row",
         config.pooled_row, "pooler_width", config.pooled_width());
  list("end_id", config.end_id ? field_text(*config.end_id) : "none", "padded", config.padded);
  list("head_bias", config.head_bias, "logit_bias", config.logit_bias);
  list("masked_language", config.masked_language);
  if (config.masked_language) list("masked_language_activation", config.masked_language_activation);
  list("next_sentence", config.next_sentence, "labelled", config.labelled);
  if (!config.labels.empty()) add(list, config.labels, config.problem);
  list("causal", config.causal, "pad_ids", numbers_text(config.pad_ids));
  return list.take();
}

Settings settings_of(const ImageEncoderConfig& config) {
  List list;
  list.within("encoder", config.encoder);
  list("channels", config.channels, "height", config.height, "width", config.width, "patch", config.patch,
       "class_token", config.class_token, "distilled", config.distilled, "patch_bias", config.patch_bias,
       "embedding_norm", config.embedding_norm, "pooler", config.pooler, "projection", config.projection);
  if (config.pooler) list("pooler_kind", config.pooler_kind);
  if (config.pooler && config.pooler_kind == ImagePooler::dense)
    list("pooler_activation", config.pooler_activation);
  list("distillation_classifier", config.distillation_classifier);
  add(list, config.labels, config.problem);
  return list.take();
}

Settings settings_of(TransformerConfig config) {
  const TransformerConfig usual;
  const nn::LayerOptions encoder =
      resolved({.d_model = config.d_model, .heads = config.heads, .d_k = config.d_k, .d_v = config.d_v});
  const nn::LayerOptions decoder = resolved(config.decoder_stack().first());
  config.d_k = encoder.d_k;
  config.d_v = encoder.d_v;
  config.decoder_heads = decoder.heads;
  config.decoder_d_ff = decoder.d_ff;
  config.final_norm = config.decoder_stack().final_norm;
  if (!config.max_tokens()) config.max_positions = usual.max_positions;
  if (config.positions != nn::PositionKind::learned &&
      config.positions != nn::PositionKind::sinusoidal_inclusive)
    config.first_position = usual.first_position;
  if (config.positions != nn::PositionKind::relative) {
    config.position_buckets = usual.position_buckets;
    config.position_max_distance = usual.position_max_distance;
  }
  for (float* rate : {&config.dropout, &config.embedding_dropout, &config.attention_dropout,
                      &config.activation_dropout, &config.drop_path})
    *rate = 0;
  Settings settings = fields(config);
  settings.emplace_back("decoder d_k", field_text(decoder.d_k));
  settings.emplace_back("decoder d_v", field_text(decoder.d_v));
  return settings;
}

}  // namespace qkv::models
