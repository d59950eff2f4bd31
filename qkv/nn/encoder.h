#pragma once
// The encoder (Vaswani et al. 2017, section 3.1).

#include <optional>
#include <vector>

#include "qkv/nn/layer_options.h"
#include "qkv/nn/relative_positions.h"

namespace qkv::nn {

class EncoderLayer {
 public:
  explicit EncoderLayer(const LayerOptions& options);

  // x [tokens, d_model] -> [tokens, d_model].
  Variable operator()(const Variable& x, const Offsets& offsets, const AttentionMask& mask,
                      ForwardContext& context) const;
  void visit(const ParameterVisitor& visitor) const;

 private:
  MultiheadAttention self_attn_;
  Residual self_attn_residual_;
  FeedForward feed_forward_;
  Residual feed_forward_residual_;
};

// The relative positions of a stack's self-attention, if its layers use them. Throws UsageError if some do
// and others do not, or differ in them or in heads.
std::optional<RelativePositions> relative_positions(const StackOptions& stack, Direction direction);

class Encoder {
 public:
  explicit Encoder(const StackOptions& options);

  Variable operator()(const Variable& x, const Offsets& offsets, ForwardContext& context,
                      const AttentionMask& mask = {}) const;
  // "relative_positions.weight" if positions are relative, "layers.0.fc1.weight", "layer_norm.weight".
  void visit(const ParameterVisitor& visitor) const;

 private:
  std::optional<RelativePositions> relative_positions_;
  std::vector<EncoderLayer> layers_;
  std::optional<Norm> layer_norm_;
};

}  // namespace qkv::nn
