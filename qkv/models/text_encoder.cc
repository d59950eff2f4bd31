#include "qkv/models/text_encoder.h"

#include "qkv/base/scope.h"
#include "qkv/models/rows_at.h"
#include "qkv/models/validate.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/general/pooling.h"
#include "qkv/ops/require.h"

namespace qkv::models {
namespace {

const TextEncoderConfig& validated(const TextEncoderConfig& config) {
  config.validate();
  return config;
}

}  // namespace

void TextEncoderConfig::validate() const {
  require_at_least("vocabulary", 1, vocabulary);
  if (max_positions) require_at_least("max_positions", 1, *max_positions);
  validate_stack(encoder);
  validate_embedding(embedding, encoder);
  if ((next_sentence || (labelled == ClassificationTarget::texts && !causal)) && !pooler) {
    throw UsageError("pooler: expected one, because heads for whole texts need it, found none");
  }
  require_at_least("pooler_width", 0, pooler_width);
  if (pooler_width > 0 && pooler_width != encoder.d_model() &&
      (next_sentence || labelled != ClassificationTarget::nothing))
    throw UsageError(
        concat("pooler_width: expected ", encoder.d_model(), ", which heads read, found ", pooler_width));
  if (end_id && (*end_id < 0 || *end_id >= vocabulary))
    throw UsageError(
        concat("end_id: expected an id below ", vocabulary, ", the vocabulary, found ", *end_id));
  if (padded && !max_positions) throw UsageError("padded: expected max_positions, found none");
  if (has_labels(labelled)) require_at_least("labels", 1, std::ssize(labels));
}

TextEncoder::TextEncoder(const TextEncoderConfig& config)
    : config_(validated(config)),
      table_(nn::Parameter::token_matrix(Shape{config.vocabulary, config.embedding.table_width()},
                                         {nn::Initializer::Kind::normal, 0.02f})),
      embedding_(config.embedding, table_.weight()),
      encoder_(config.encoder, config.causal ? nn::Direction::backwards : nn::Direction::both) {
  const int64_t d_model = config.embedding.d_model;
  const auto head = [d_model](bool wanted, int64_t outputs, bool bias = true) {
    const nn::LinearOptions options{.inputs = d_model, .outputs = outputs, .bias = bias};
    return wanted ? std::optional<nn::Linear>(std::in_place, options) : std::nullopt;
  };
  const nn::NormOptions norm{.features = d_model,
                             .epsilon = config.encoder.first().epsilon,
                             .bias = config.encoder.first().norm_bias};
  pooler_ = head(config.pooler, config.pooled_width(), config.head_bias);
  if (config.pooler && config.pooler_norm) pooler_norm_.emplace(norm);
  next_sentence_ = head(config.next_sentence, 2);
  classifier_ = head(config.labelled != ClassificationTarget::nothing,
                     has_labels(config.labelled) ? std::ssize(config.labels) : 2, /*bias=*/!config.causal);
  if (config.masked_language) {
    const nn::LogitsLayer layer{.width = config.embedding.table_width(),
                                .activation = config.masked_language_activation,
                                .bias = config.head_bias,
                                .epsilon = norm.epsilon,
                                .norm_bias = norm.bias};
    const nn::LogitsOptions options{
        .d_model = d_model, .vocabulary = config.vocabulary, .bias = config.logit_bias, .layer = layer};
    masked_language_.emplace(options, table_.weight());
  }
}

Variable TextEncoder::operator()(const Ragged& ids, nn::ForwardContext& context, const Tensor& types,
                                 const Tensor& positions) const {
  if (config_.max_positions && ids.offsets.max_length() > *config_.max_positions) {
    throw UsageError(concat("a text of ", ids.offsets.max_length(), " tokens is longer than the ",
                            *config_.max_positions, " that the model can read"));
  }
  const NameScope scope("encoder");
  return encoder_(embedding_(ids, context, {.positions = positions, .types = types}), ids.offsets, context,
                  {.causal = config_.causal});
}

void TextEncoder::refuse(const char* head) const {
  throw UsageError(concat("expected a model with ", head, ", found none"));
}

Variable TextEncoder::pooled(const Variable& hidden, const Offsets& offsets) const {
  if (!pooler_) refuse("a pooler");
  return pooled_rows(text_rows(hidden, offsets), {}, {});
}

Variable TextEncoder::text_rows(const Variable& hidden, const Offsets& offsets) const {
  if (config_.pooled_row == PooledRow::mean) return segment_mean(hidden, offsets);
  return rows_at(hidden, config_.encoder.d_model(), offsets,
                 config_.pooled_row == PooledRow::last ? kLastToken : 0);
}

Variable TextEncoder::pooled_rows(const Variable& rows, const Dropout& dropout,
                                  const nn::ForwardContext& context) const {
  if (!pooler_norm_) return (*pooler_)(rows, config_.pooler_activation, dropout, context);
  const Variable pooled = (*pooler_norm_)((*pooler_)(rows, config_.pooler_activation, {}, context));
  return dropout.active() ? activate(pooled, Activation::identity, dropout) : pooled;
}

Variable TextEncoder::masked_language_logits(const Variable& hidden) const {
  if (!masked_language_) refuse("a masked-language head");
  const NameScope scope("masked_language");
  return (*masked_language_)(hidden);
}

CrossEntropyResult TextEncoder::masked_language_loss(const Variable& hidden, const Tensor& labels,
                                                     const CrossEntropyOptions& options) const {
  if (!masked_language_) refuse("a masked-language head");
  const NameScope scope("masked_language");
  return masked_language_->cross_entropy(hidden, labels, options);
}

Variable TextEncoder::next_sentence(const Variable& hidden, const Offsets& offsets) const {
  if (!next_sentence_) refuse("a next-sentence head");
  return (*next_sentence_)(pooled(hidden, offsets));
}

Variable TextEncoder::classified_hidden(const Variable& hidden, const Offsets& offsets,
                                        const Dropout& dropout, const nn::ForwardContext& context) const {
  const int64_t d_model = config_.encoder.d_model();
  const bool of_texts = config_.labelled == ClassificationTarget::texts;
  if (pooler_) return pooled_rows(of_texts ? text_rows(hidden, offsets) : hidden, dropout, context);
  const Variable rows = of_texts ? rows_at(hidden, d_model, offsets, kLastToken) : hidden;
  return dropout.active() ? activate(rows, Activation::identity, dropout) : rows;
}

Variable TextEncoder::classifier_logits(const Variable& hidden, const Offsets& offsets) const {
  if (!classifier_) refuse("labels");
  return (*classifier_)(classified_hidden(hidden, offsets, {}, {}));
}

Variable TextEncoder::classifier_logits(const Variable& hidden, const Offsets& offsets,
                                        nn::ForwardContext& context) const {
  if (!classifier_) refuse("labels");
  const Dropout dropout = context.dropout(config_.embedding.dropout);
  return (*classifier_)(classified_hidden(hidden, offsets, dropout, context), context);
}

void TextEncoder::visit(const nn::ParameterVisitor& visitor) const {
  visitor("embed_tokens.weight", table_);
  embedding_.visit(visitor);
  nn::visit_part(visitor, "encoder", encoder_);
  if (pooler_) nn::visit_part(visitor, "pooler", *pooler_);
  if (pooler_norm_) nn::visit_part(visitor, "pooler.layer_norm", *pooler_norm_);
  if (masked_language_) nn::visit_part(visitor, "masked_language", *masked_language_);
  if (next_sentence_) nn::visit_part(visitor, "next_sentence", *next_sentence_);
  if (classifier_) nn::visit_part(visitor, "classifier", *classifier_);
}

}  // namespace qkv::models
