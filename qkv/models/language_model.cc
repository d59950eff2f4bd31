#include "qkv/models/language_model.h"

#include <algorithm>

#include "qkv/base/scope.h"
#include "qkv/models/validate.h"

namespace qkv::models {
namespace {

const LanguageModelConfig& validated(const LanguageModelConfig& config) {
  config.validate();
  return config;
}

nn::StackOptions without_memory(nn::StackOptions options) {
  options.each([](nn::LayerOptions& layer) { layer.reads_memory = false; });
  return options;
}

}  // namespace

void LanguageModelConfig::validate() const {
  require_at_least("vocabulary", 1, vocabulary);
  require_at_least("max_positions", 1, max_positions);
  if (!causal) throw UsageError("causal: expected true, as the next token is predicted, found false");
  validate_stack(decoder);
  validate_embedding(embedding, decoder);
  if (embedding.table_width() != embedding.d_model)
    throw UsageError(concat("embedding: width: expected that of the layers, ", embedding.d_model, ", found ",
                            embedding.width));
  for (const auto* ids : {&bos_ids, &eos_ids}) {
    for (const int32_t id : *ids) {
      if (id < 0 || id >= vocabulary) {
        throw UsageError(concat(ids == &bos_ids ? "bos_ids" : "eos_ids", ": expected ids below ", vocabulary,
                                ", found ", id));
      }
    }
  }
}

LanguageModel::LanguageModel(const LanguageModelConfig& config)
    : config_(validated(config)),
      table_(nn::Parameter::token_matrix(Shape{config.vocabulary, config.embedding.d_model},
                                         {nn::Initializer::Kind::normal, 0.02f})),
      embedding_(config.embedding, table_.weight()),
      decoder_(without_memory(config.decoder)),
      logits_({.d_model = config.embedding.d_model,
               .vocabulary = config.vocabulary,
               .bias = config.logit_bias,
               .scale = config.logit_scale,
               .softcap = config.logit_softcap,
               .layer = config.logit_layer},
              config.tied ? table_.weight() : Weight()) {}

void LanguageModel::require_positions(int64_t tokens) const {
  if (tokens > config_.max_positions) {
    throw UsageError(concat("a text of ", tokens, " tokens is longer than the ", config_.max_positions,
                            " that the model can read"));
  }
}

Variable LanguageModel::operator()(const Ragged& ids, nn::ForwardContext& context) const {
  require_positions(ids.offsets.max_length());
  const NameScope scope("decoder");
  return decoder_(embedding_(ids, context), ids.offsets, {}, context);
}

nn::DecoderState LanguageModel::start(const Ragged& beginnings, DType cache_dtype) const {
  nn::DecoderState state = decoder_.start({.offsets = beginnings.offsets}, cache_dtype);
  read(beginnings, state);
  return state;
}

void LanguageModel::read(const Ragged& ids, nn::DecoderState& state, const EmbeddedRows& rows) const {
  if (ids.offsets.tokens() == 0) return;
  const Tensor positions = nn::position_ids(ids.offsets, state.next_positions());
  require_positions(*std::ranges::max_element(positions.values<int32_t>()) + 1);
  const NameScope scope("decoder");
  nn::ForwardContext context;
  const Variable x = embedding_(ids, context, {.positions = positions, .rows = rows.values});
  decoder_.read(x.value(), ids.offsets, state, !rows.both_directions);
}

Tensor LanguageModel::step(const Tensor& ids, nn::DecoderState& state) const {
  const Tensor positions = state.next_positions();
  if (!ids.defined() || ids.shape() != positions.shape())
    throw ShapeError(concat("step: expected the ids of ", positions.numel(), " rows, found ", ids.shape()));
  const auto numbers = positions.values<int32_t>();
  require_positions(numbers.empty() ? 0 : *std::ranges::max_element(numbers) + 1);
  nn::ForwardContext context;
  const Variable x = embedding_({ids, Offsets::uniform(ids.numel(), 1)}, context, {.positions = positions});
  return logits_(decoder_.step(x.value(), state)).value();
}

void LanguageModel::visit(const nn::ParameterVisitor& visitor) const {
  visitor("embed_tokens.weight", table_);
  embedding_.visit(visitor);
  nn::visit_part(visitor, "decoder", decoder_);
  nn::visit_part(visitor, "lm_head", logits_);
}

}  // namespace qkv::models
