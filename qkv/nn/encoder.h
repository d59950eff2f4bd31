#pragma once
// The encoder (Vaswani et al. 2017, section 3.1).

#include <memory>
#include <optional>
#include <vector>

#include "qkv/nn/attention/relative_positions.h"
#include "qkv/nn/layer_options.h"

namespace qkv::nn {

// Self-attention, feed-forward, and the residual connections around them: the layers of encoders and, with
// cross attention between the two, of decoders.
class Sublayers {
 public:
  // Throws UsageError for parallel sublayers in layers that are not pre-norm.
  explicit Sublayers(const LayerOptions& options);

  // x [tokens, d_model] -> [tokens, d_model]. self(rows) computes self-attention; between(rows) is run after
  // it, in serial layers only.
  template <class Self, class Between>
  Variable operator()(const Variable& x, const Offsets& offsets, ForwardContext& context, const Self& self,
                      const Between& between) const {
    const auto fed = [&](const Variable& rows) { return feed_forward(rows, context); };
    if (order_ == SublayerOrder::serial) {
      const Variable rows = between(self_attn_residual_(x, offsets, context, self));
      return scaled((*feed_forward_residual_)(rows, offsets, context, fed));
    }
    const Residual& second = feed_forward_residual_ ? *feed_forward_residual_ : self_attn_residual_;
    const Variable in = self_attn_residual_.input(x);
    const Variable y = fed(feed_forward_residual_ ? second.input(x) : in);
    return scaled(second.add(self_attn_residual_.add(x, self(in), offsets, context), y, offsets, context));
  }

  const MultiheadAttention& self_attn() const { return self_attn_; }
  // between(): visits the parameters that belong between those of self-attention and of the feed-forward.
  template <class Between>
  void visit(const ParameterVisitor& visitor, const Between& between) const {
    visit_part(visitor, "self_attn", self_attn_);
    self_attn_residual_.visit(visitor, "self_attn");
    between();
    feed_forward_->visit(visitor);
    if (feed_forward_residual_) feed_forward_residual_->visit(visitor, "final");
    if (layer_scalar_.defined()) visitor("layer_scalar", layer_scalar_);
  }

 private:
  Variable feed_forward(const Variable& rows, ForwardContext& context) const;
  Variable scaled(const Variable& rows) const;

  SublayerOrder order_;
  MultiheadAttention self_attn_;
  Residual self_attn_residual_;
  std::shared_ptr<const FeedForward> feed_forward_;
  std::optional<Residual> feed_forward_residual_;  // nothing: one norm for both sublayers
  Parameter layer_scalar_;                         // [1]; undefined: none
};

class EncoderLayer {
 public:
  explicit EncoderLayer(const LayerOptions& options) : sublayers_(options) {}

  // x [tokens, d_model] -> [tokens, d_model].
  Variable operator()(const Variable& x, const Offsets& offsets, const AttentionMask& mask,
                      ForwardContext& context) const;
  void visit(const ParameterVisitor& visitor) const;

 private:
  Sublayers sublayers_;
};

// The relative positions of a stack's self-attention, if its layers use them. Throws UsageError if some do
// and others do not, or differ in them or in heads.
std::optional<RelativePositions> relative_positions(const StackOptions& stack, Direction direction);

class Encoder {
 public:
  // `direction`: of relative positions.
  explicit Encoder(const StackOptions& options, Direction direction = Direction::both);

  Variable operator()(const Variable& x, const Offsets& offsets, ForwardContext& context,
                      const AttentionMask& mask = {}) const;
  // "relative_positions.weight" if positions are relative, "distances.weight" if disentangled,
  // "layers.0.fc1.weight", "layer_norm.weight".
  void visit(const ParameterVisitor& visitor) const;

 private:
  std::optional<DistanceVectors> distances_;
  std::optional<RelativePositions> relative_positions_;
  size_t repeats_ = 1;
  DType activations_ = DType::f32;
  std::vector<EncoderLayer> layers_;
  std::optional<Norm> layer_norm_;
};

}  // namespace qkv::nn
