#pragma once
// Options from Python and back: the fields of each struct once, by name. Nested structs are dicts, enums
// strings.

#include <array>
#include <optional>
#include <span>

#include "python/bind/common.h"
#include "qkv/models/language_model.h"
#include "qkv/models/option_words.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/transformer.h"
#include "qkv/ops/attention.h"
#include "qkv/ops/general/losses.h"
#include "qkv/ops/linear_cross_entropy.h"
#include "qkv/optim/adafactor.h"
#include "qkv/optim/adagrad.h"
#include "qkv/optim/adam.h"
#include "qkv/optim/rmsprop.h"
#include "qkv/optim/sgd.h"
#include "qkv/train/schedule.h"

namespace qkv::python {

// The names of kinds without a setting (models/option_words.h has the others), for words().
struct EnumWords {
  static Words<kernels::Alignment> of(kernels::Alignment /*kind*/) {
    static constexpr std::array<std::pair<std::string_view, kernels::Alignment>, 2> kWords{
        {{"last_key", kernels::Alignment::last_key}, {"first_key", kernels::Alignment::first_key}}};
    return kWords;
  }
  static Words<nn::Initializer::Kind> of(nn::Initializer::Kind /*kind*/) {
    using Kind = nn::Initializer::Kind;
    static constexpr std::array<std::pair<std::string_view, Kind>, 4> kWords{
        {{"zeros", Kind::zeros},
         {"ones", Kind::ones},
         {"normal", Kind::normal},
         {"xavier_uniform", Kind::xavier_uniform}}};
    return kWords;
  }
  static Words<Reduction> of(Reduction /*kind*/) {
    static constexpr std::array<std::pair<std::string_view, Reduction>, 3> kWords{
        {{"mean", Reduction::mean}, {"sum", Reduction::sum}, {"none", Reduction::none}}};
    return kWords;
  }
  static Words<train::ScheduleKind> of(train::ScheduleKind /*kind*/) {
    using Kind = train::ScheduleKind;
    static constexpr std::array<std::pair<std::string_view, Kind>, 5> kWords{
        {{"paper", Kind::paper},
         {"inverse_sqrt", Kind::inverse_sqrt},
         {"cosine", Kind::cosine},
         {"linear", Kind::linear},
         {"constant", Kind::constant}}};
    return kWords;
  }
  template <class Enum>
  static auto of(Enum kind) -> decltype(words(kind)) {
    return words(kind);
  }
};

template <class Visit>
void fields(nn::Initializer& o, const Visit& visit) {
  visit("kind", o.kind);
  visit("deviation", o.deviation);
}
template <class Visit>
void fields(nn::LinearOptions& o, const Visit& visit) {
  visit("inputs", o.inputs);
  visit("outputs", o.outputs);
  visit("bias", o.bias);
}
template <class Visit>
void fields(nn::NormOptions& o, const Visit& visit) {
  visit("features", o.features);
  visit("kind", o.kind);
  visit("epsilon", o.epsilon);
  visit("bias", o.bias);
}
template <class Visit>
void fields(nn::RotaryScaling& o, const Visit& visit) {
  visit("kind", o.kind);
  visit("factor", o.factor);
  visit("first_positions", o.first_positions);
  visit("low", o.low);
  visit("high", o.high);
  visit("slow", o.slow);
  visit("fast", o.fast);
  visit("magnitude", o.magnitude);
  visit("query_growth", o.query_growth);
  visit("short_factors", o.short_factors);
  visit("long_factors", o.long_factors);
  visit("truncate", o.truncate);
}
template <class Visit>
void fields(nn::PositionOptions& o, const Visit& visit) {
  visit("kind", o.kind);
  visit("max_positions", o.max_positions);
  visit("first_row", o.first_row);
  visit("pad_id", o.pad_id);
  visit("rotary_base", o.rotary_base);
  visit("rotary_scaling", o.rotary_scaling);
  visit("rotary_features", o.rotary_features);
  visit("buckets", o.buckets);
  visit("max_distance", o.max_distance);
}
template <class Visit>
void fields(nn::ProjectionBiases& o, const Visit& visit) {
  visit("query", o.query);
  visit("key", o.key);
  visit("value", o.value);
  visit("output", o.output);
}
template <class Visit>
void fields(nn::AttentionVariant& o, const Visit& visit) {
  visit("bias", o.bias);
  visit("positions", o.positions);
  visit("scale", o.scale);
  visit("softcap", o.softcap);
  visit("window", o.window);
  visit("query_key_norm", o.query_key_norm);
  visit("sinks", o.sinks);
}
template <class Visit>
void fields(nn::MultiheadAttentionOptions& o, const Visit& visit) {
  visit("d_model", o.d_model);
  visit("heads", o.heads);
  visit("key_heads", o.key_heads);
  visit("d_k", o.d_k);
  visit("d_v", o.d_v);
  visit("variant", o.variant);
  visit("norm_kind", o.norm_kind);
  visit("epsilon", o.epsilon);
  visit("dropout", o.dropout);
}
template <class Visit>
void fields(nn::AttentionMask& o, const Visit& visit) {
  visit("causal", o.causal);
  visit("alignment", o.alignment);
  visit("keep", o.keep);
  visit("bias", o.bias);
  visit("relative_bias", o.relative_bias);
}
template <class Visit>
void fields(nn::GateClamp& o, const Visit& visit) {
  visit("limit", o.limit);
  visit("alpha", o.alpha);
}
template <class Visit>
void fields(nn::DenseFeedForwardOptions& o, const Visit& visit) {
  visit("d_model", o.d_model);
  visit("d_ff", o.d_ff);
  visit("activation", o.activation);
  visit("gated", o.gated);
  visit("clamp", o.clamp);
  visit("bias", o.bias);
  visit("dropout", o.dropout);
}
template <class Visit>
void fields(nn::ExpertOptions& o, const Visit& visit) {
  visit("count", o.count);
  visit("per_token", o.per_token);
  visit("normalise", o.normalise);
  visit("router_bias", o.router_bias);
  visit("shared_d_ff", o.shared_d_ff);
  visit("shared_gate", o.shared_gate);
}
template <class Visit>
void fields(nn::LayerOptions& o, const Visit& visit) {
  visit("d_model", o.d_model);
  visit("heads", o.heads);
  visit("key_heads", o.key_heads);
  visit("d_k", o.d_k);
  visit("d_v", o.d_v);
  visit("d_ff", o.d_ff);
  visit("activation", o.activation);
  visit("gated", o.gated);
  visit("gate_clamp", o.gate_clamp);
  visit("feed_forward_bias", o.feed_forward_bias);
  visit("experts", o.experts);
  visit("norm", o.norm);
  visit("norm_kind", o.norm_kind);
  visit("epsilon", o.epsilon);
  visit("norm_bias", o.norm_bias);
  visit("order", o.order);
  visit("residual_scale", o.residual_scale);
  visit("attention", o.attention);
  visit("reads_memory", o.reads_memory);
  visit("dropout", o.dropout);
  visit("attention_dropout", o.attention_dropout);
  visit("activation_dropout", o.activation_dropout);
  visit("drop_path", o.drop_path);
}
template <class Visit>
void fields(nn::StackOptions& o, const Visit& visit) {
  visit("layers", o.layers);
  visit("final_norm", o.final_norm);
  visit("drop_path", o.drop_path);
}
template <class Visit>
void fields(nn::EmbeddingConfig& o, const Visit& visit) {
  visit("d_model", o.d_model);
  visit("factor", o.factor);
  visit("positions", o.positions);
  visit("token_types", o.token_types);
  visit("norm", o.norm);
  visit("epsilon", o.epsilon);
  visit("dropout", o.dropout);
}
template <class Visit>
void fields(nn::LogitsOptions& o, const Visit& visit) {
  visit("d_model", o.d_model);
  visit("vocabulary", o.vocabulary);
  visit("initializer", o.initializer);
  visit("bias", o.bias);
  visit("scale", o.scale);
  visit("softcap", o.softcap);
}
template <class Visit>
void fields(models::TextEncoderConfig& o, const Visit& visit) {
  visit("vocabulary", o.vocabulary);
  visit("max_positions", o.max_positions);
  visit("embedding", o.embedding);
  visit("encoder", o.encoder);
  visit("causal", o.causal);
  visit("pooler", o.pooler);
  visit("pooler_activation", o.pooler_activation);
  visit("masked_language", o.masked_language);
  visit("masked_language_activation", o.masked_language_activation);
  visit("next_sentence", o.next_sentence);
  visit("labelled", o.labelled);
  visit("labels", o.labels);
  visit("problem", o.problem);
  visit("pad_ids", o.pad_ids);
}
template <class Visit>
void fields(models::LanguageModelConfig& o, const Visit& visit) {
  visit("vocabulary", o.vocabulary);
  visit("max_positions", o.max_positions);
  visit("embedding", o.embedding);
  visit("decoder", o.decoder);
  visit("tied", o.tied);
  visit("logit_bias", o.logit_bias);
  visit("logit_scale", o.logit_scale);
  visit("logit_softcap", o.logit_softcap);
  visit("bos_ids", o.bos_ids);
  visit("eos_ids", o.eos_ids);
}
template <class Visit>
void fields(models::TransformerConfig& o, const Visit& visit) {
  visit("source_vocabulary", o.source_vocabulary);
  visit("target_vocabulary", o.target_vocabulary);
  visit("d_model", o.d_model);
  visit("encoder_layers", o.encoder_layers);
  visit("decoder_layers", o.decoder_layers);
  visit("heads", o.heads);
  visit("decoder_heads", o.decoder_heads);
  visit("d_k", o.d_k);
  visit("d_v", o.d_v);
  visit("d_ff", o.d_ff);
  visit("decoder_d_ff", o.decoder_d_ff);
  visit("activation", o.activation);
  visit("gated", o.gated);
  visit("norm", o.norm);
  visit("norm_kind", o.norm_kind);
  visit("epsilon", o.epsilon);
  visit("bias", o.bias);
  visit("output_bias", o.output_bias);
  visit("positions", o.positions);
  visit("max_positions", o.max_positions);
  visit("first_position", o.first_position);
  visit("position_buckets", o.position_buckets);
  visit("position_max_distance", o.position_max_distance);
  visit("tying", o.tying);
  visit("scale_embedding", o.scale_embedding);
  visit("embedding_norm", o.embedding_norm);
  visit("scale_attention", o.scale_attention);
  visit("scale_output", o.scale_output);
  visit("final_norm", o.final_norm);
  visit("dropout", o.dropout);
  visit("embedding_dropout", o.embedding_dropout);
  visit("attention_dropout", o.attention_dropout);
  visit("activation_dropout", o.activation_dropout);
  visit("drop_path", o.drop_path);
  visit("eos_id", o.eos_id);
  visit("pad_id", o.pad_id);
  visit("decoder_start_id", o.decoder_start_id);
  visit("source_eos", o.source_eos);
  visit("mel_bins", o.mel_bins);
  visit("source_positions", o.source_positions);
}
template <class Visit>
void fields(AttentionOptions& o, const Visit& visit) {
  visit("causal", o.causal);
  visit("alignment", o.alignment);
  visit("window", o.window);
  visit("fixed_order", o.fixed_order);
  visit("keep", o.keep);
  visit("bias", o.bias);
  visit("alibi_slopes", o.alibi_slopes);
  visit("relative_bias", o.relative_bias);
  visit("sinks", o.sinks);
  visit("scale", o.scale);
  visit("softcap", o.softcap);
  visit("query_offsets", o.query_offsets);
  visit("key_offsets", o.key_offsets);
  visit("key_heads", o.key_heads);
  visit("return_weights", o.return_weights);
  visit("return_scores", o.return_scores);
  visit("return_top", o.return_top);
}
template <class Visit>
void fields(ClassLossOptions& o, const Visit& visit) {
  visit("ignored_label", o.ignored_label);
  visit("class_weights", o.class_weights);
  visit("label_smoothing", o.label_smoothing);
  visit("reduction", o.reduction);
}
template <class Visit>
void fields(CrossEntropyOptions& o, const Visit& visit) {
  visit("label_smoothing", o.label_smoothing);
  visit("factor", o.factor);
  visit("chunk_rows", o.chunk_rows);
}
template <class Visit>
void fields(optim::AdamOptions& o, const Visit& visit) {
  visit("beta1", o.beta1);
  visit("beta2", o.beta2);
  visit("epsilon", o.epsilon);
  visit("amsgrad", o.amsgrad);
  visit("weight_decay", o.weight_decay);
}
template <class Visit>
void fields(optim::SgdOptions& o, const Visit& visit) {
  visit("momentum", o.momentum);
  visit("dampening", o.dampening);
  visit("nesterov", o.nesterov);
  visit("weight_decay", o.weight_decay);
}
template <class Visit>
void fields(optim::RmspropOptions& o, const Visit& visit) {
  visit("alpha", o.alpha);
  visit("epsilon", o.epsilon);
  visit("momentum", o.momentum);
  visit("centered", o.centered);
  visit("weight_decay", o.weight_decay);
}
template <class Visit>
void fields(optim::AdagradOptions& o, const Visit& visit) {
  visit("lr_decay", o.lr_decay);
  visit("initial_accumulator", o.initial_accumulator);
  visit("epsilon", o.epsilon);
  visit("weight_decay", o.weight_decay);
}
template <class Visit>
void fields(optim::AdafactorOptions& o, const Visit& visit) {
  visit("beta2_decay", o.beta2_decay);
  visit("epsilon1", o.epsilon1);
  visit("epsilon2", o.epsilon2);
  visit("clip_threshold", o.clip_threshold);
  visit("weight_decay", o.weight_decay);
}
template <class Visit>
void fields(train::ScheduleOptions& o, const Visit& visit) {
  visit("kind", o.kind);
  visit("warmup_steps", o.warmup_steps);
  visit("fit_warmup", o.fit_warmup);
  visit("learning_rate", o.learning_rate);
  visit("factor", o.factor);
  visit("d_model", o.d_model);
  visit("minimum", o.minimum);
  visit("total_steps", o.total_steps);
}

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
void read_fields(const std::string& name, const nb::dict& given, T& options);

// Sets a value from Python. Throws UsageError naming it, what was expected and what was found.
template <class T>
void read_value(const std::string& name, nb::handle given, T& value) {
  if constexpr (std::is_enum_v<T>) {
    if (!nb::isinstance<nb::str>(given))
      throw UsageError(concat(name, ": expected a string, found ", nb::repr(given).c_str()));
    parse_field(name, nb::cast<std::string>(given), EnumWords::of(value), value);
  } else if constexpr (IsOptional<T>::value) {
    value.reset();
    if (!given.is_none()) read_value(name, given, value.emplace());
  } else if constexpr (IsVector<T>::value) {
    value.clear();
    size_t index = 0;
    for (const nb::handle item : nb::borrow<nb::object>(given))
      read_value(concat(name, "[", index++, "]"), item, value.emplace_back());
  } else if constexpr (std::is_same_v<T, Tensor>) {
    value = tensor_of(given);
  } else if constexpr (std::is_same_v<T, Variable>) {
    value = variable_of(given);
  } else if constexpr (std::is_same_v<T, Offsets>) {
    value = nb::cast<Offsets>(given);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    assign(name, given, value);
  } else {
    if (!nb::isinstance<nb::dict>(given))
      throw UsageError(concat(name, ": expected options, found ", nb::repr(given).c_str()));
    read_fields(name, nb::borrow<nb::dict>(given), value);
  }
}

template <class T>
nb::object written(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return nb::cast(field_text(EnumWords::of(value), value));
  } else if constexpr (IsOptional<T>::value) {
    return value ? written(*value) : nb::none();
  } else if constexpr (IsVector<T>::value) {
    nb::list list;
    for (const auto& item : value) list.append(written(item));
    return list;
  } else if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, Variable>) {
    return value.defined() ? nb::cast(value) : nb::none();
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string> ||
                       std::is_same_v<T, Offsets>) {
    return nb::cast(value);
  } else {
    nb::dict dict;
    T copy = value;
    fields(copy, [&](const char* name, const auto& member) { dict[name] = written(member); });
    return dict;
  }
}

// Throws UsageError for a name that is no field.
template <class T>
void read_fields(const std::string& name, const nb::dict& given, T& options) {
  size_t found = 0;
  std::string known;
  fields(options, [&](const char* field, auto& member) {
    known += concat(known.empty() ? "" : ", ", field);
    if (!given.contains(field)) return;
    ++found;
    read_value(concat(name, name.empty() ? "" : ".", field), given[field], member);
  });
  if (found == given.size()) return;
  for (const auto& [key, value] : given) {
    const std::string field = nb::cast<std::string>(key);
    if ((", " + known + ",").find(", " + field + ",") == std::string::npos)
      throw UsageError(concat(name, ": expected one of the options ", known, ", found '", field, "'"));
  }
}

template <class T>
T options_from(const char* name, const nb::dict& given) {
  T options;
  read_fields(name, given, options);
  return options;
}

// Of a constructor: (options) or (field=value, ...), or both.
template <class T>
T options_from(const char* name, const nb::args& positional, const nb::kwargs& given) {
  T options;
  if (positional.size() > 1)
    throw UsageError(concat(name, ": expected options by name, found ", positional.size(), " without one"));
  if (positional.size() == 1) read_value(name, positional[0], options);
  read_fields(name, given, options);
  return options;
}

}  // namespace qkv::python
