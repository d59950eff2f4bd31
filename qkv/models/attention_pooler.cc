#include "qkv/models/attention_pooler.h"

#include "qkv/ops/embedding.h"
#include "qkv/ops/norm.h"

namespace qkv::models {
namespace {

nn::MultiheadAttentionOptions attention_of(const nn::LayerOptions& layer) {
  nn::MultiheadAttentionOptions options = layer.cross_attention();
  options.variant = {};
  return options;
}

}  // namespace

AttentionPooler::AttentionPooler(const nn::LayerOptions& layer)
    : query_({Shape{1, layer.d_model}, {nn::Initializer::Kind::normal, 0.02f}}),
      attn_(attention_of(layer)),
      norm_(layer.norm_options()),
      feed_forward_(layer.feed_forward()) {}

Variable AttentionPooler::operator()(const Variable& hidden, const Offsets& offsets,
                                     nn::ForwardContext& context) const {
  const int64_t sequences = offsets.sequences();
  const Tensor first = Tensor::zeros({sequences}, DType::i32);  // each sequence has the same query
  const Variable query = embedding(query_.variable, first, {}, {});
  const Variable found =
      attn_.cross(query, Offsets::uniform(sequences, 1), hidden, hidden, offsets, {}, context);
  return residual(found, (*feed_forward_)(norm_(found), context));
}

void AttentionPooler::visit(const nn::ParameterVisitor& visitor) const {
  visitor("query", query_);
  nn::visit_part(visitor, "attn", attn_);
  nn::visit_part(visitor, "layer_norm", norm_);
  feed_forward_->visit(visitor);
}

}  // namespace qkv::models
