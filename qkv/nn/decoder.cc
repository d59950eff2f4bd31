#include "qkv/nn/decoder.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/scope.h"
#include "qkv/nn/recompute.h"
#include "qkv/ops/convert.h"
#include "qkv/ops/require.h"

namespace qkv::nn {

Tensor DecoderState::next_positions() const {
  if (layers.empty()) throw UsageError("decoder state: expected the layers of a decoder, found none");
  return layers.front().self.lengths();
}

void DecoderState::join(std::span<DecoderState* const> others) {
  // First everything that may throw.
  std::vector<int32_t> offsets = hypothesis_offsets.values();
  for (const DecoderState* other : others) {
    if (other->layers.empty()) continue;
    if (!layers.empty() && layers.size() != other->layers.size()) {
      throw UsageError(concat("decoder state of ", layers.size(), " layers: cannot take in one of ",
                              other->layers.size()));
    }
    layers.resize(other->layers.size());
    for (int64_t s = 0; s < other->hypothesis_offsets.sequences(); ++s)
      offsets.push_back(offsets.back() + static_cast<int32_t>(other->hypothesis_offsets.length(s)));
  }
  const Offsets joined(std::move(offsets));
  for (size_t i = 0; i < layers.size(); ++i) {
    int64_t sequences = 0, rows = 0, sentences = 0;
    for (const DecoderState* other : others) {
      if (i >= other->layers.size()) continue;
      layers[i].self.require_joinable(other->layers[i].self);
      layers[i].memory.require_joinable(other->layers[i].memory);
      sequences += other->layers[i].self.sequences();
      rows += other->layers[i].self.rows();
      sentences += other->layers[i].memory.sentences();
    }
    layers[i].self.reserve(sequences, rows);
    layers[i].memory.reserve(sentences);
  }
  for (DecoderState* other : others) {
    for (size_t i = 0; i < other->layers.size(); ++i) {
      layers[i].self.join(std::move(other->layers[i].self));
      layers[i].memory.join(std::move(other->layers[i].memory));
    }
  }
  hypothesis_offsets = joined;
}

void DecoderState::join(DecoderState others) {
  DecoderState* const one = &others;
  join(std::span(&one, 1));
}

std::vector<DecoderState> DecoderState::split() {
  std::vector<DecoderState> parts(static_cast<size_t>(hypothesis_offsets.sequences()));
  for (DecoderLayerState& layer : layers) {
    std::vector<KeyValueCache> caches = layer.self.split();
    for (size_t s = 0; s < parts.size(); ++s) parts[s].layers.push_back({.self = std::move(caches[s])});
  }
  for (size_t s = 0; s < parts.size(); ++s) {
    parts[s].hypothesis_offsets = Offsets::uniform(1, hypothesis_offsets.length(static_cast<int64_t>(s)));
    parts[s].watched_layer = watched_layer;
  }
  layers.clear();
  hypothesis_offsets = Offsets();
  return parts;
}

bool DecoderState::can_share(int64_t positions) const {
  return std::ranges::all_of(layers,
                             [&](const DecoderLayerState& layer) { return layer.self.can_share(positions); });
}

DecoderState DecoderState::share(int64_t positions) const {
  DecoderState shared;
  for (const DecoderLayerState& layer : layers)
    shared.layers.push_back({.self = layer.self.share(positions)});
  shared.hypothesis_offsets = Offsets::uniform(1, 1);
  return shared;
}

int64_t DecoderState::bytes() const {
  int64_t bytes = 0;
  for (const DecoderLayerState& layer : layers) bytes += layer.self.bytes();
  return bytes;
}

void DecoderState::reorder(std::span<const int32_t> parents, const Offsets& new_rows_of) {
  for (DecoderLayerState& layer : layers) {
    layer.self.reorder(parents, new_rows_of);
    if (layer.memory.sentences() > 0) layer.memory.keep(new_rows_of);  // otherwise it reads no memory
  }
  std::vector<int32_t> offsets{0};
  for (int64_t s = 0; s < new_rows_of.sequences(); ++s) {
    if (new_rows_of.length(s) > 0) offsets.push_back(static_cast<int32_t>(new_rows_of.end(s)));
  }
  hypothesis_offsets = Offsets(std::move(offsets));
}

namespace {

// Of an attention's keys and values in blocks of positions.
int64_t cache_bytes(const MultiheadAttentionOptions& filled, int64_t positions, DType dtype) {
  return block_bytes(positions, filled.key_heads * filled.d_k, dtype) +
         block_bytes(positions, filled.key_heads * filled.d_v, dtype);
}

}  // namespace

int64_t cache_bytes(const StackOptions& stack, const CacheUse& use, int64_t memory_tokens, DType dtype,
                    Device device) {
  int64_t bytes = 0;
  for (const LayerOptions& layer : stack.layers) {
    bytes += cache_bytes(completed(layer.self_attention()),
                         cached_positions(use, layer.attention.window, device), dtype);
    if (!layer.reads_memory) continue;
    const MultiheadAttentionOptions cross = completed(layer.cross_attention());
    cache_bytes(cross, memory_tokens, dtype);  // throws where the product overflows
    bytes += static_cast<int64_t>(bytes_of(dtype, memory_tokens * cross.key_heads * (cross.d_k + cross.d_v)));
  }
  return bytes;
}

DecoderLayer::DecoderLayer(const LayerOptions& options) : sublayers_(options) {
  if (!options.reads_memory) return;
  if (options.order != SublayerOrder::serial)
    throw UsageError("decoder layer: cross attention: expected serial sublayers, found parallel ones");
  encoder_attn_.emplace(CrossAttention{.attention = MultiheadAttention(options.cross_attention()),
                                       .residual = Residual(options.residual())});
}

template <class Self, class Cross>
Variable DecoderLayer::run(const Variable& x, const Offsets& offsets, ForwardContext& context,
                           const Self& self, const Cross& cross) const {
  return sublayers_(x, offsets, context, self, [&](const Variable& rows) {
    return encoder_attn_ ? encoder_attn_->residual(rows, offsets, context, cross) : rows;
  });
}

Variable DecoderLayer::operator()(const Variable& x, const Offsets& offsets, const Memory& memory,
                                  ForwardContext& context, const DecoderLayerRun& options) const {
  return run(
      x, offsets, context,
      [&](const Variable& rows) {
        const NameScope scope("self_attn");
        return sublayers_.self_attn().self(rows, offsets, options.masks.self, context);
      },
      [&](const Variable& rows) {
        const NameScope scope("encoder_attn");
        return encoder_attn_->attention.cross(rows, offsets, memory.values, memory.values, memory.offsets,
                                              options.masks.memory, context);
      });
}

DecoderLayerState DecoderLayer::start(const Memory& memory, DType dtype) const {
  const int64_t window = sublayers_.self_attn().options().variant.window;
  DecoderLayerState state{.self =
                              KeyValueCache(memory.offsets.sequences(), {.dtype = dtype, .window = window})};
  if (encoder_attn_)
    state.memory = encoder_attn_->attention.encode_memory(memory.values.value(), memory.offsets, dtype);
  return state;
}

Tensor DecoderLayer::read(const Tensor& x, const Offsets& offsets, DecoderLayerState& layer_state,
                          const Tensor& relative_bias, bool causal) const {
  if (encoder_attn_) throw UsageError("decoder: read: expected a decoder that reads no memory, found one");
  ForwardContext context;  // inference, no observer
  const auto self = [&](const Variable& rows) -> Variable {
    return sublayers_.self_attn().self_read(rows.value(), offsets, layer_state.self, relative_bias, causal);
  };
  const auto no_cross = [](const Variable& rows) { return rows; };
  return run(x, offsets, context, self, no_cross).value();
}

Tensor DecoderLayer::step(const Tensor& x, DecoderLayerState& layer_state, const Offsets& hypothesis_offsets,
                          const DecoderLayerStep& options) const {
  ForwardContext context;  // inference, no observer
  return run(
             x, hypothesis_offsets, context,
             [&](const Variable& rows) -> Variable {
               return sublayers_.self_attn().self_step(rows.value(), layer_state.self, options.relative_bias);
             },
             [&](const Variable& rows) -> Variable {
               return encoder_attn_->attention.cross_step(rows.value(), hypothesis_offsets,
                                                          layer_state.memory, options.weights);
             })
      .value();
}

void DecoderLayer::visit(const ParameterVisitor& visitor) const {
  sublayers_.visit(visitor, [&] {
    if (!encoder_attn_) return;
    visit_part(visitor, "encoder_attn", encoder_attn_->attention);
    encoder_attn_->residual.visit(visitor, "encoder_attn");
  });
}

namespace {

// Of f32, in the dtype of activations.
Variable converted(const Variable& x, DType dtype) {
  require_f32("decoder", x.value());
  return in_dtype(x, dtype);
}

Memory converted(const Memory& memory, DType dtype) {
  return {memory.values.defined() ? converted(memory.values, dtype) : memory.values, memory.offsets};
}

}  // namespace

Decoder::Decoder(const StackOptions& options)
    : relative_positions_(relative_positions(options, Direction::backwards)),
      activations_(options.activations) {
  if (options.layers.empty()) throw UsageError("decoder: layers: expected at least 1, found 0");
  for (const LayerOptions& layer : options.layers) {
    if (layer.attention.positions.kind == PositionKind::disentangled)
      throw UsageError(
          "decoder: positions: expected another kind, found disentangled ones, which encoders have");
  }
  if (options.repeats != 1) throw UsageError(concat("decoder: repeats: expected 1, found ", options.repeats));
  for (int64_t i = 0; i < options.size(); ++i) layers_.emplace_back(options.layer_at(i));
  if (options.final_norm) layer_norm_.emplace(options.first().norm_options());
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
  const AttentionMask& self = run.masks.self;
  const DType dtype = context.activations(activations_, x.value().device());
  Variable rows = converted(x, dtype);
  const Memory read = converted(memory, dtype);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const NameScope scope("layers", static_cast<int>(i));
    const DecoderLayer& layer = layers_[i];
    rows = run_layer(context, layer,
                     {rows, read.values, self.bias, self.relative_bias, run.masks.memory.bias,
                      run.masks.memory.relative_bias},
                     [&layer, rows, offsets, read, run](ForwardContext& own) {
                       return layer(rows, offsets, read, own, run);
                     });
  }
  rows = to_f32(rows);
  return layer_norm_ ? (*layer_norm_)(rows) : rows;
}

DecoderState Decoder::start(const Memory& memory, DType dtype) const {
  DecoderState state;
  const Memory read = converted(memory, activations_);
  for (const DecoderLayer& layer : layers_) state.layers.push_back(layer.start(read, dtype));
  state.hypothesis_offsets = Offsets::uniform(memory.offsets.sequences(), 1);
  return state;
}

void Decoder::require_own(const DecoderState& state) const {
  if (state.layers.size() == layers_.size()) return;
  throw UsageError(concat("decoder of ", layers_.size(),
                          " layers: expected a state of its own, found one of ", state.layers.size(),
                          " layers"));
}

Tensor Decoder::read(const Tensor& x, const Offsets& offsets, DecoderState& state, bool causal) const {
  require_own(state);
  Tensor bias;
  if (relative_positions_) {
    const Tensor first = state.next_positions();
    if (first.numel() != offsets.sequences()) {
      throw ShapeError(
          concat("decoder: read: expected tokens for ", first.numel(), " rows, found ", offsets.sequences()));
    }
    int64_t longest = 0;
    for (int64_t i = 0; i < offsets.sequences(); ++i)
      longest = std::max(longest, first.data<int32_t>()[i] + offsets.length(i));
    bias = relative_bias(longest).value();
  }
  Tensor rows = converted(x, activations_).value();
  for (size_t i = 0; i < layers_.size(); ++i) {
    const NameScope scope("layers", static_cast<int>(i));
    rows = layers_[i].read(rows, offsets, state.layers[i], bias, causal);
  }
  rows = to_f32(rows).value();
  return layer_norm_ ? (*layer_norm_)(rows).value() : rows;
}

Tensor Decoder::step(const Tensor& x, DecoderState& state) const {
  require_own(state);
  DecoderLayerStep options;
  if (relative_positions_) {
    int32_t last = 0;
    const Tensor positions = state.next_positions();
    for (const int32_t position : positions.values<int32_t>()) last = std::max(last, position);
    options.relative_bias = relative_bias(last + 1).value();
  }
  Tensor rows = converted(x, activations_).value();
  state.source_weights.clear();
  for (size_t i = 0; i < layers_.size(); ++i) {
    options.weights = state.watched_layer == static_cast<int64_t>(i) ? &state.source_weights : nullptr;
    rows = layers_[i].step(rows, state.layers[i], state.hypothesis_offsets, options);
  }
  rows = to_f32(rows).value();
  return layer_norm_ ? (*layer_norm_)(rows).value() : rows;
}

void Decoder::visit(const ParameterVisitor& visitor) const {
  if (relative_positions_) visit_part(visitor, "relative_positions", *relative_positions_);
  visit_parts(visitor, "layers", layers_);
  if (layer_norm_) visit_part(visitor, "layer_norm", *layer_norm_);
}

}  // namespace qkv::nn
