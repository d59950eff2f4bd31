#include "qkv/nn/attention/latent_attention.h"

#include "qkv/base/error.h"
#include "qkv/ops/general/contiguous.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/general/slice.h"

namespace qkv::nn {
namespace {

constexpr float kLatentEpsilon = 1e-6f;  // a constant in transformers

Parameter matrix(int64_t outputs, int64_t inputs) {
  return Parameter::weight_matrix(Shape{outputs, inputs}, {Initializer::Kind::xavier_uniform});
}

Parameter offset(bool wanted, int64_t outputs) {
  return wanted ? Parameter(Shape{outputs}, {Initializer::Kind::zeros}) : Parameter();
}

Norm latent_norm(int64_t features) {
  return Norm({.features = features, .kind = NormKind::rms, .epsilon = kLatentEpsilon});
}

const LatentSizes& validated(const LatentSizes& sizes) {
  if (sizes.latent.rank < 1 || sizes.latent.query_rank < 0)
    throw UsageError(
        concat("attention: latent: expected a rank of at least 1 and a query_rank of at least 0, found ",
               sizes.latent.rank, " and ", sizes.latent.query_rank));
  if (sizes.rotated < 2 || sizes.rotated % 2 != 0 || sizes.rotated >= sizes.d_k)
    throw UsageError(
        concat("attention: latent: expected an even number of rotated features from 2 to below d_k ",
               sizes.d_k, ", found ", sizes.rotated));
  return sizes;
}

// Each head's features of both, [tokens, heads (a + b)].
Variable joined(const Variable& first, const Variable& second, int64_t heads) {
  const int64_t tokens = first.value().rows();
  const auto by_head = [&](const Variable& x) {
    return reshape(contiguous("attention", x), {tokens * heads, x.value().cols() / heads});
  };
  const Variable both = concatenate({by_head(first), by_head(second)}, 1);
  return reshape(both, {tokens, heads * both.value().cols()});
}

// The row of each token for all heads, [tokens, heads features].
Variable for_all_heads(const Variable& x, int64_t heads) {
  const int64_t tokens = x.value().rows();
  Tensor rows = Tensor::empty({tokens * heads}, DType::i32);
  for (int64_t i = 0; i < tokens * heads; ++i) rows.data<int32_t>()[i] = static_cast<int32_t>(i / heads);
  return reshape(gather(contiguous("attention", x), rows), {tokens, heads * x.value().cols()});
}

}  // namespace

LatentProjections::LatentProjections(const LatentSizes& sizes)
    : sizes_(validated(sizes)), kv_a_norm_(latent_norm(sizes.latent.rank)) {
  const auto& [latent, d_model, heads, rotated, d_k, d_v, query_bias, key_bias] = sizes_;
  const int64_t query_inputs = latent.query_rank > 0 ? latent.query_rank : d_model;
  q_weight_ = matrix(heads * (d_k - rotated), query_inputs);
  q_rope_weight_ = matrix(heads * rotated, query_inputs);
  kv_a_weight_ = matrix(latent.rank, d_model);
  kv_a_bias_ = offset(key_bias, latent.rank);
  k_rope_weight_ = matrix(rotated, d_model);
  k_rope_bias_ = offset(key_bias, rotated);
  k_weight_ = matrix(heads * (d_k - rotated), latent.rank);
  v_weight_ = matrix(heads * d_v, latent.rank);
  std::vector<Weight> weights{kv_a_weight_.weight(), k_rope_weight_.weight()};
  std::vector<Variable> biases{kv_a_bias_.variable, k_rope_bias_.variable};
  if (latent.query_rank > 0) {
    q_a_weight_ = matrix(latent.query_rank, d_model);
    q_a_bias_ = offset(query_bias, latent.query_rank);
    q_a_norm_.emplace(latent_norm(latent.query_rank));
    weights.push_back(q_a_weight_.weight());
    biases.push_back(q_a_bias_.variable);
  }
  inputs_.emplace(std::move(weights), std::move(biases));
  queries_ = LinearWeights({q_weight_.weight(), q_rope_weight_.weight()});
  keys_values_ = LinearWeights({k_weight_.weight(), v_weight_.weight()});
}

LatentProjections::Heads LatentProjections::operator()(const Variable& x, const Rotate& rotate,
                                                       WeightLayout layout) const {
  const auto& [rank, query_rank] = sizes_.latent;
  const int64_t heads = sizes_.heads, rotated = sizes_.rotated, plain = heads * (sizes_.d_k - rotated);
  const Variable rows = linear(x, *inputs_, layout);
  const Variable shared = rotate(rows.columns(rank, rotated), 1);
  const Variable latent = kv_a_norm_(contiguous("attention", rows.columns(0, rank)));
  const Variable keys_values = linear(latent, *keys_values_, layout);
  const Variable reads =
      q_a_norm_ ? (*q_a_norm_)(contiguous("attention", rows.columns(rank + rotated, query_rank))) : x;
  const Variable queries = linear(reads, *queries_, layout);
  return {joined(rotate(queries.columns(plain, heads * rotated), heads), queries.columns(0, plain), heads),
          joined(for_all_heads(shared, heads), keys_values.columns(0, plain), heads),
          keys_values.columns(plain, heads * sizes_.d_v)};
}

void LatentProjections::visit(const ParameterVisitor& visitor) const {
  const auto both = [&](const std::string& name, const Parameter& weight, const Parameter& bias) {
    visitor(name + ".weight", weight);
    if (bias.defined()) visitor(name + ".bias", bias);
  };
  if (q_a_norm_) {
    both("q_a_proj", q_a_weight_, q_a_bias_);
    visit_part(visitor, "q_a_norm", *q_a_norm_);
  }
  both("q_proj", q_weight_, {});
  both("q_rope_proj", q_rope_weight_, {});
  both("kv_a_proj", kv_a_weight_, kv_a_bias_);
  both("k_rope_proj", k_rope_weight_, k_rope_bias_);
  visit_part(visitor, "kv_a_norm", kv_a_norm_);
  both("k_proj", k_weight_, {});
  both("v_proj", v_weight_, {});
}

}  // namespace qkv::nn
