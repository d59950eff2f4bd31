#include "qkv/nn/decoder.h"

#include <algorithm>

#include "qkv/base/scope.h"
#include "qkv/nn/recompute.h"

namespace qkv::nn {

Tensor DecoderState::next_positions() const { return layers.front().self.lengths(); }

void DecoderState::join(DecoderState new_requests) {
  layers.resize(new_requests.layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i].self.join(std::move(new_requests.layers[i].self));
    layers[i].memory.join(std::move(new_requests.layers[i].memory));
  }
  std::vector<int32_t> offsets = hypothesis_offsets.values();
  for (int64_t s = 0; s < new_requests.hypothesis_offsets.sequences(); ++s)
    offsets.push_back(offsets.back() + static_cast<int32_t>(new_requests.hypothesis_offsets.length(s)));
  hypothesis_offsets = Offsets(std::move(offsets));
}

void DecoderState::reorder(std::span<const int32_t> parents, const Offsets& new_rows_of) {
  for (DecoderLayerState& layer : layers) {
    layer.self.reorder(parents, new_rows_of);
    if (layer.memory.sentences() > 0) layer.memory.keep(new_rows_of);  // else it reads none
  }
  std::vector<int32_t> offsets{0};
  for (int64_t s = 0; s < new_rows_of.sequences(); ++s) {
    if (new_rows_of.length(s) > 0) offsets.push_back(static_cast<int32_t>(new_rows_of.end(s)));
  }
  hypothesis_offsets = Offsets(std::move(offsets));
}

int64_t cache_bytes(const LayerOptions& layer, int64_t positions, int64_t memory_tokens) {
  const auto width = [](const MultiheadAttentionOptions& own) {
    const MultiheadAttentionOptions filled = completed(own);
    return filled.key_heads * (filled.d_k + filled.d_v);
  };
  int64_t numbers = positions * width(layer.self_attention());
  if (layer.reads_memory) numbers += memory_tokens * width(layer.cross_attention());
  return numbers * static_cast<int64_t>(size_of(DType::f32));
}

DecoderLayer::DecoderLayer(const LayerOptions& options)
    : self_attn_(options.self_attention()),
      self_attn_residual_(options.residual()),
      feed_forward_(options.feed_forward()),
      feed_forward_residual_(options.residual()) {
  if (options.reads_memory) {
    encoder_attn_.emplace(CrossAttention{.attention = MultiheadAttention(options.cross_attention()),
                                         .residual = Residual(options.residual())});
  }
}

template <class Self, class Cross>
Variable DecoderLayer::run(const Variable& x, ForwardContext& context, const Self& self,
                           const Cross& cross) const {
  Variable rows = self_attn_residual_(x, context, self);
  if (encoder_attn_) rows = encoder_attn_->residual(rows, context, cross);
  return feed_forward_residual_(rows, context, [&](const Variable& in) {
    const NameScope scope("feed_forward");
    return feed_forward_(in, context);
  });
}

Variable DecoderLayer::operator()(const Variable& x, const Offsets& offsets, const Memory& memory,
                                  ForwardContext& context, const DecoderLayerRun& options) const {
  return run(
      x, context,
      [&](const Variable& rows) {
        const NameScope scope("self_attn");
        return self_attn_.self(rows, offsets, options.masks.self, context, options.cache);
      },
      [&](const Variable& rows) {
        const NameScope scope("encoder_attn");
        return encoder_attn_->attention.cross(rows, offsets, memory.values, memory.values, memory.offsets,
                                              options.masks.memory, context);
      });
}

DecoderLayerState DecoderLayer::start(const Memory& memory) const {
  DecoderLayerState state{.self = KeyValueCache(memory.offsets.sequences())};
  if (encoder_attn_)
    state.memory = encoder_attn_->attention.encode_memory(memory.values.value(), memory.offsets);
  return state;
}

Tensor DecoderLayer::step(const Tensor& x, DecoderLayerState& layer_state, const Offsets& hypothesis_offsets,
                          const DecoderLayerStep& options) const {
  ForwardContext context;  // nothing is dropped, nothing observed
  return run(
             x, context,
             [&](const Variable& rows) -> Variable {
               return self_attn_.self_step(rows.value(), layer_state.self, options.relative_bias);
             },
             [&](const Variable& rows) -> Variable {
               return encoder_attn_->attention.cross_step(rows.value(), hypothesis_offsets,
                                                          layer_state.memory, options.weights);
             })
      .value();
}

void DecoderLayer::visit(const ParameterVisitor& visitor) const {
  visit_part(visitor, "self_attn", self_attn_);
  visit_part(visitor, "self_attn_layer_norm", self_attn_residual_.norm());
  if (encoder_attn_) {
    visit_part(visitor, "encoder_attn", encoder_attn_->attention);
    visit_part(visitor, "encoder_attn_layer_norm", encoder_attn_->residual.norm());
  }
  feed_forward_.visit(visitor);
  visit_part(visitor, "final_layer_norm", feed_forward_residual_.norm());
}

Decoder::Decoder(const StackOptions& options)
    : relative_positions_(relative_positions(options.layer, Direction::backwards)) {
  for (int64_t i = 0; i < options.layers; ++i) layers_.emplace_back(options.layer);
  if (options.final_norm) layer_norm_.emplace(options.layer.norm_options());
}

Variable Decoder::relative_bias(int64_t n) const {
  return relative_positions_ ? (*relative_positions_)(n) : Variable();
}

DecoderMasks Decoder::with_relative_bias(DecoderMasks masks, int64_t n) const {
  if (relative_positions_) masks.self.relative_bias = relative_bias(n);
  return masks;
}

Variable Decoder::operator()(const Variable& x, const Offsets& offsets, const Memory& memory,
                             ForwardContext& context, const DecoderMasks& masks) const {
  const DecoderLayerRun run{.masks = with_relative_bias(masks, offsets.max_length())};
  Variable rows = x;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const NameScope scope("layers", static_cast<int>(i));
    rows = run_layer(context, [&layer = layers_[i], rows, offsets, memory, run](ForwardContext& own) {
      return layer(rows, offsets, memory, own, run);
    });
  }
  return layer_norm_ ? (*layer_norm_)(rows) : rows;
}

DecoderState Decoder::start(const Memory& memory) const {
  DecoderState state;
  for (const DecoderLayer& layer : layers_) state.layers.push_back(layer.start(memory));
  state.hypothesis_offsets = Offsets::uniform(memory.offsets.sequences(), 1);
  return state;
}

Tensor Decoder::read(const Tensor& x, const Offsets& offsets, DecoderState& state,
                     ForwardContext& context) const {
  const DecoderMasks masks = with_relative_bias({}, offsets.max_length());
  Variable rows = x;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const NameScope scope("layers", static_cast<int>(i));
    rows = layers_[i](rows, offsets, {}, context, {.masks = masks, .cache = &state.layers[i].self});
  }
  return layer_norm_ ? (*layer_norm_)(rows).value() : rows.value();
}

Tensor Decoder::step(const Tensor& x, DecoderState& state) const {
  DecoderLayerStep options;
  if (relative_positions_) {
    int32_t last = 0;
    for (const int32_t position : state.next_positions().values<int32_t>()) last = std::max(last, position);
    options.relative_bias = relative_bias(last + 1).value();
  }
  Tensor rows = x;
  state.source_weights.clear();
  for (size_t i = 0; i < layers_.size(); ++i) {
    options.weights = state.watched_layer == static_cast<int64_t>(i) ? &state.source_weights : nullptr;
    rows = layers_[i].step(rows, state.layers[i], state.hypothesis_offsets, options);
  }
  return layer_norm_ ? (*layer_norm_)(rows).value() : rows;
}

void Decoder::visit(const ParameterVisitor& visitor) const {
  if (relative_positions_) visit_part(visitor, "relative_positions", *relative_positions_);
  visit_parts(visitor, "layers", layers_);
  if (layer_norm_) visit_part(visitor, "layer_norm", *layer_norm_);
}

}  // namespace qkv::nn
