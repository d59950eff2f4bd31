#include "qkv/models/hub/settings.h"

#include <algorithm>
#include <array>

#include "qkv/base/field_text.h"

namespace qkv::models {
namespace {

using models::name_of;

std::string name_of(nn::RotaryScalingKind kind) {
  constexpr std::array<const char*, 4> kNames{"none", "linear", "llama3", "yarn"};
  return kNames.at(static_cast<size_t>(kind));
}

std::string name_of(ClassificationTarget target) {
  constexpr std::array<const char*, 3> kNames{"nothing", "texts", "tokens"};
  return kNames.at(static_cast<size_t>(target));
}

std::string name_of(ProblemType problem) {
  constexpr std::array<const char*, 3> kNames{"single_label", "multi_label", "regression"};
  return kNames.at(static_cast<size_t>(problem));
}

class List {
 public:
  template <class Value>
  void operator()(const std::string& name, const Value& value) {
    if constexpr (std::is_enum_v<Value>) {
      all_.emplace_back(prefix_ + name, name_of(value));
    } else {
      all_.emplace_back(prefix_ + name, field_text(value));
    }
  }
  void within(const std::string& prefix, const auto& add) {
    const std::string outer = prefix_;
    prefix_ += prefix + ".";
    add();
    prefix_ = outer;
  }
  Settings take() { return std::move(all_); }

 private:
  std::string prefix_;
  Settings all_;
};

void add(List& list, const nn::PositionOptions& positions) {
  list("kind", positions.kind);
  if (positions.kind == nn::PositionKind::learned) {
    list("max_positions", positions.max_positions);
    list("first_row", positions.first_row);
    list("pad_id", positions.pad_id);
  } else if (positions.kind == nn::PositionKind::rotary) {
    const nn::RotaryScaling& scaling = positions.rotary_scaling;
    list("rotary_base", positions.rotary_base);
    list("rotary_scaling", scaling.kind);
    if (scaling.kind == nn::RotaryScalingKind::none) return;
    list("rotary_scaling.factor", scaling.factor);
    list("rotary_scaling.first_positions", scaling.first_positions);
    list("rotary_scaling.low", scaling.low);
    list("rotary_scaling.high", scaling.high);
    list("rotary_scaling.slow", scaling.slow);
    list("rotary_scaling.fast", scaling.fast);
    list("rotary_scaling.magnitude", scaling.magnitude);
  } else if (positions.kind == nn::PositionKind::relative) {
    list("buckets", positions.buckets);
    list("max_distance", positions.max_distance);
  }
}

void add(List& list, const nn::LayerOptions& layer) {
  // A new option does not compile before it is listed here.
  const auto& [d_model, heads, key_heads, d_k, d_v, d_ff, activation, gated, norm, norm_kind, epsilon,
               attention_bias, feed_forward_bias, positions, attention_scale, attention_softcap, window,
               reads_memory, dropout, attention_dropout, activation_dropout, drop_path] = resolved(layer);
  list("norm", norm);
  list("norm_kind", norm_kind);
  list("epsilon", epsilon);
  list("d_model", d_model);
  list("heads", heads);
  list("key_heads", key_heads);
  list("d_k", d_k);
  list("d_v", d_v);
  list("d_ff", d_ff);
  list("activation", activation);
  list("gated", gated);
  list("attention_bias", attention_bias);
  list("feed_forward_bias", feed_forward_bias);
  list.within("positions", [&, &p = positions] { add(list, p); });
  list("attention_scale", attention_scale ? field_text(*attention_scale) : "1/sqrt(d_k)");
  list("attention_softcap", attention_softcap);
  list("window", window);
}

void add(List& list, const nn::StackOptions& stack) {
  list("final_norm", stack.final_norm);
  list("layers", stack.layers);
  list.within("layer", [&] { add(list, stack.layer); });
}

void add(List& list, const nn::EmbeddingConfig& embedding) {
  list("scale", embedding.scale);
  list.within("positions", [&] { add(list, embedding.positions); });
  list("token_types", embedding.token_types);
  list("norm", embedding.norm);
  if (embedding.norm) list("epsilon", embedding.epsilon);
}

void add(List& list, const std::vector<std::string>& labels, ProblemType problem) {
  list("labels", std::ssize(labels));
  for (size_t i = 0; i < labels.size(); ++i) list(concat("labels.", i), labels[i]);
  if (labels.empty()) return;
  // With one label, single-label classification is a yes-or-no decision.
  const bool decision = labels.size() == 1 && problem == ProblemType::single_label;
  list("problem", decision ? ProblemType::multi_label : problem);
}

std::string text_of(const std::vector<int32_t>& ids) {
  std::string text = "[";
  for (const int32_t id : ids) text += concat(text.size() == 1 ? "" : ", ", id);
  return text + "]";
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
  List list;
  list.within("embedding", [&] { add(list, config.embedding); });
  list.within("decoder", [&] { add(list, config.decoder); });
  list("vocabulary", config.vocabulary);
  list("max_positions", config.max_positions);
  list("tied", config.tied);
  list("bos_ids", text_of(config.bos_ids));
  list("eos_ids", text_of(config.eos_ids));
  return list.take();
}

Settings settings_of(const TextEncoderConfig& config) {
  List list;
  list.within("embedding", [&] { add(list, config.embedding); });
  list.within("encoder", [&] { add(list, config.encoder); });
  list("vocabulary", config.vocabulary);
  list("max_positions", config.max_positions ? field_text(*config.max_positions) : "unlimited");
  list("pooler", config.pooler);
  if (config.pooler) list("pooler_activation", config.pooler_activation);
  list("masked_language", config.masked_language);
  if (config.masked_language) list("masked_language_activation", config.masked_language_activation);
  list("next_sentence", config.next_sentence);
  list("labelled", config.labelled);
  if (config.labelled != ClassificationTarget::nothing) add(list, config.labels, config.problem);
  return list.take();
}

Settings settings_of(const ImageEncoderConfig& config) {
  List list;
  list.within("encoder", [&] { add(list, config.encoder); });
  list("channels", config.channels);
  list("height", config.height);
  list("width", config.width);
  list("patch", config.patch);
  list("distilled", config.distilled);
  list("pooler", config.pooler);
  if (config.pooler) list("pooler_activation", config.pooler_activation);
  list("distillation_classifier", config.distillation_classifier);
  add(list, config.labels, config.problem);
  return list.take();
}

Settings settings_of(TransformerConfig config) {
  const nn::StackOptions stack = config.encoder_stack();
  const nn::LayerOptions layer = resolved(stack.layer);
  const TransformerConfig usual;
  config.d_k = layer.d_k;
  config.d_v = layer.d_v;
  config.final_norm = stack.final_norm;
  if (!config.max_tokens()) config.max_positions = usual.max_positions;
  if (config.positions != nn::PositionKind::relative) {
    config.position_buckets = usual.position_buckets;
    config.position_max_distance = usual.position_max_distance;
  }
  for (float* rate : {&config.dropout, &config.embedding_dropout, &config.attention_dropout,
                      &config.activation_dropout, &config.drop_path})
    *rate = 0;
  return fields(config);
}

}  // namespace qkv::models
