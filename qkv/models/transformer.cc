#include "qkv/models/transformer.h"

#include <cmath>

#include "qkv/base/scope.h"
#include "qkv/models/audio_stem.h"

namespace qkv::models {
namespace {

const TransformerConfig& validated(const TransformerConfig& config) {
  config.validate();
  return config;
}

// An embedding table with standard deviation 1 / sqrt(d_model): rows have norm 1 before scaling by
// sqrt(d_model), and logits have standard deviation 1.
nn::Initializer table_initializer(int64_t d_model) {
  return {nn::Initializer::Kind::normal, 1.0f / std::sqrt(static_cast<float>(d_model))};
}

nn::Parameter table(int64_t vocabulary, int64_t d_model) {
  return nn::Parameter::token_matrix(Shape{vocabulary, d_model}, table_initializer(d_model));
}

nn::LogitsOptions logits_options(const TransformerConfig& config) {
  return {.d_model = config.d_model,
          .vocabulary = config.target_vocabulary,
          .initializer = table_initializer(config.d_model),
          .bias = config.output_bias,
          .scale = config.scale_output ? 1.0f / std::sqrt(static_cast<float>(config.d_model)) : 1.0f};
}

nn::EmbeddingConfig embedding_config(const TransformerConfig& config) {
  return {.d_model = config.d_model,
          .factor = config.scale_embedding ? std::sqrt(static_cast<float>(config.d_model)) : 1.0f,
          .positions = {.kind = config.positions,
                        .max_positions = config.max_positions + config.first_position,
                        .first_row = config.first_position},
          .norm = config.embedding_norm,
          .epsilon = config.epsilon,
          .dropout = config.embedding_dropout};
}

}  // namespace

Transformer::Transformer(const TransformerConfig& config)
    : config_(validated(config)),
      target_table_(table(config.target_vocabulary, config.d_model)),
      source_table_(config.shares_embeddings() || config.reads_audio()
                        ? nn::Parameter()
                        : table(config.source_vocabulary, config.d_model)),
      target_embedding_(embedding_config(config), target_table_.weight()),
      encoder_(config.encoder_stack()),
      decoder_(config.decoder_stack()),
      logits_(logits_options(config), config.tying == Tying::none || config.tying == Tying::inputs
                                          ? Weight()
                                          : target_table_.weight()) {
  if (config.reads_audio()) {
    audio_stem_ = std::make_shared<const AudioStem>(AudioStemOptions{
        .mel_bins = config.mel_bins, .d_model = config.d_model, .positions = config.source_positions});
  } else {
    source_embedding_.emplace(embedding_config(config), source_table().weight());
  }
}

const nn::Parameter& Transformer::source_table() const {
  return source_table_.defined() ? source_table_ : target_table_;
}

nn::Memory Transformer::encode(const Ragged& source, nn::ForwardContext& context) const {
  if (!source_embedding_) throw UsageError("encode: expected a model that reads tokens, found one of audio");
  const NameScope scope("encoder");
  const Variable x = (*source_embedding_)(source, context);
  return {encoder_(x, source.offsets, context), source.offsets};
}

nn::Memory Transformer::encode_audio(const Tensor& frames, const Offsets& offsets,
                                     nn::ForwardContext& context) const {
  if (!audio_stem_) throw UsageError("encode_audio: expected a model that reads audio, found one of tokens");
  const NameScope scope("encoder");
  const Offsets rows = audio_rows(offsets);
  return {encoder_((*audio_stem_)(frames, offsets, context), rows, context), rows};
}

Variable Transformer::decode(const Ragged& target, const nn::Memory& memory,
                             nn::ForwardContext& context) const {
  const NameScope scope("decoder");
  const Variable x = target_embedding_(target, context);
  return decoder_(x, target.offsets, memory, context);
}

nn::DecoderState Transformer::start(const nn::Memory& memory, DType cache_dtype) const {
  return decoder_.start(memory, cache_dtype);
}

Tensor Transformer::step(const Tensor& ids, nn::DecoderState& state, const nn::Logits& logits) const {
  nn::ForwardContext context;
  const Tensor positions = state.next_positions();
  if (!ids.defined() || ids.shape() != positions.shape())
    throw ShapeError(concat("step: expected the ids of ", positions.numel(), " rows, found ", ids.shape()));
  const Ragged tokens{ids, Offsets::uniform(ids.numel(), 1)};
  const Variable x = target_embedding_(tokens, context, {.positions = positions});
  return logits(decoder_.step(x.value(), state)).value();
}

void Transformer::visit(const nn::ParameterVisitor& visitor) const {
  if (config_.shares_embeddings()) {
    visitor("model.shared.weight", target_table_);
  } else {
    if (source_table_.defined()) visitor("model.encoder.embed_tokens.weight", source_table_);
    visitor("model.decoder.embed_tokens.weight", target_table_);
  }
  logits_.visit([&](const std::string& name, nn::Parameter parameter) {
    if (name == "bias") parameter.shape = Shape{1, config_.target_vocabulary};
    visitor(name == "bias" ? "final_logits_bias" : "lm_head.weight", parameter);
  });
  if (audio_stem_) nn::visit_part(visitor, "model.encoder", *audio_stem_);
  if (source_embedding_) nn::visit_part(visitor, "model.encoder", *source_embedding_);
  nn::visit_part(visitor, "model.encoder", encoder_);
  nn::visit_part(visitor, "model.decoder", target_embedding_);
  nn::visit_part(visitor, "model.decoder", decoder_);
}

}  // namespace qkv::models
