#include "qkv/nn/encoder.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "qkv/base/error.h"
#include "qkv/base/scope.h"
#include "qkv/nn/recompute.h"
#include "qkv/ops/convert.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/require.h"

namespace qkv::nn {

Sublayers::Sublayers(const LayerOptions& options)
    : order_(options.order),
      self_attn_(options.self_attention()),
      self_attn_residual_(options.attention_residual()),
      feed_forward_(options.feed_forward()) {
  if (options.layer_scalar) layer_scalar_ = Parameter(Shape{1}, {Initializer::Kind::ones});
  if (order_ != SublayerOrder::parallel_one_norm)
    feed_forward_residual_.emplace(options.feed_forward_residual());
  if ((order_ != SublayerOrder::serial || options.feed_forward_output_norm) &&
      options.norm != NormPlacement::pre)
    throw UsageError(
        "layer: parallel sublayers or a norm of the feed-forward's result: expected norms before the "
        "sublayers "
        "only, found others");
  if (order_ != SublayerOrder::serial && options.feed_forward_output_norm)
    throw UsageError("layer: parallel sublayers: expected no norm of the feed-forward's result, found one");
}

Variable Sublayers::feed_forward(const Variable& rows, ForwardContext& context) const {
  const NameScope scope("feed_forward");
  return (*feed_forward_)(rows, context);
}

Variable Sublayers::scaled(const Variable& rows) const {
  return layer_scalar_.defined() ? rows * layer_scalar_.variable : rows;
}

Variable EncoderLayer::operator()(const Variable& x, const Offsets& offsets, const AttentionMask& mask,
                                  ForwardContext& context) const {
  const auto self = [&](const Variable& rows) {
    const NameScope scope("self_attn");
    return sublayers_.self_attn().self(rows, offsets, mask, context);
  };
  return sublayers_(x, offsets, context, self, std::identity());
}

void EncoderLayer::visit(const ParameterVisitor& visitor) const {
  sublayers_.visit(visitor, [] {});
}

std::optional<RelativePositions> relative_positions(const StackOptions& stack, Direction direction) {
  const auto& [positions, heads] = std::tie(stack.first().attention.positions, stack.first().heads);
  const auto is_relative = [](const LayerOptions& layer) {
    return layer.attention.positions.kind == PositionKind::relative;
  };
  if (std::ranges::none_of(stack.layers, is_relative)) return std::nullopt;
  for (const LayerOptions& layer : stack.layers) {
    if (layer.attention.positions != positions || layer.heads != heads)
      throw UsageError("relative positions: expected the same in all layers, as they share the table");
  }
  return RelativePositions(positions, heads, direction);
}

namespace {

// Those of a stack's self-attention, if its layers use them; all must, alike.
std::optional<DistanceVectors> distance_vectors(const StackOptions& stack) {
  const PositionOptions& positions = stack.first().attention.positions;
  for (const LayerOptions& layer : stack.layers) {
    const bool disentangled = layer.attention.positions.kind == PositionKind::disentangled;
    if (disentangled && layer.attention.positions != positions)
      throw UsageError("disentangled positions: expected the same in all layers, as they share the vectors");
  }
  if (positions.kind != PositionKind::disentangled) return std::nullopt;
  NormOptions norm = stack.first().norm_options();
  norm.features = stack.d_model();
  return DistanceVectors(positions, norm);
}

}  // namespace

Encoder::Encoder(const StackOptions& options, Direction direction)
    : distances_(distance_vectors(options)),
      relative_positions_(relative_positions(options, direction)),
      repeats_(static_cast<size_t>(options.repeats)),
      activations_(options.activations) {
  if (options.repeats < 1) throw UsageError(concat("repeats: expected at least 1, found ", options.repeats));
  for (int64_t i = 0; i < options.size(); ++i) layers_.emplace_back(options.layer_at(i));
  if (options.final_norm) layer_norm_.emplace(options.first().norm_options());
}

Variable Encoder::operator()(const Variable& x, const Offsets& offsets, ForwardContext& context,
                             const AttentionMask& mask) const {
  require_f32("encoder", x.value());
  Variable rows = in_dtype(x, context.activations(activations_, x.value().device()));
  AttentionMask own_mask = mask;
  if (relative_positions_) own_mask.relative_bias = (*relative_positions_)(offsets.max_length());
  if (distances_) {
    const auto [of_keys, of_queries] = (*distances_)(offsets.max_length());
    own_mask.distances = {in_dtype(of_keys, rows.value().dtype()),
                          in_dtype(of_queries, rows.value().dtype())};
  }
  for (size_t i = 0; i < repeats_ * layers_.size(); ++i) {
    const NameScope scope("layers", static_cast<int>(i));
    const EncoderLayer& layer = layers_[i % layers_.size()];
    rows = run_layer(context, layer,
                     {rows, own_mask.bias, own_mask.relative_bias, own_mask.distances.of_keys,
                      own_mask.distances.of_queries},
                     [&layer, rows, offsets, own_mask](ForwardContext& own) {
                       return layer(rows, offsets, own_mask, own);
                     });
  }
  rows = to_f32(rows);
  return layer_norm_ ? (*layer_norm_)(rows) : rows;
}

void Encoder::visit(const ParameterVisitor& visitor) const {
  if (relative_positions_) visit_part(visitor, "relative_positions", *relative_positions_);
  if (distances_) visit_part(visitor, "distances", *distances_);
  visit_parts(visitor, "layers", layers_);
  if (layer_norm_) visit_part(visitor, "layer_norm", *layer_norm_);
}

}  // namespace qkv::nn
