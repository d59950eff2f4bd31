#include "qkv/nn/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "qkv/base/scope.h"
#include "qkv/nn/attention/latent_attention.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/contiguous.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/rotary.h"

namespace qkv::nn {
namespace {

Parameter weight(int64_t outputs, int64_t inputs) {
  return Parameter::weight_matrix(Shape{outputs, inputs}, {Initializer::Kind::xavier_uniform});
}

// A projection of the input; latent attention has others.
Parameter own_weight(const MultiheadAttentionOptions& options, int64_t outputs) {
  return options.variant.latent == LatentOptions() ? weight(outputs, options.d_model) : Parameter();
}

Parameter bias(bool wanted, int64_t outputs) {
  return wanted ? Parameter(Shape{outputs}, {Initializer::Kind::zeros}) : Parameter();
}

Parameter own_bias(const MultiheadAttentionOptions& options, bool wanted, int64_t outputs) {
  return bias(wanted && options.variant.latent == LatentOptions(), outputs);
}

std::optional<Norm> norm(const MultiheadAttentionOptions& options, int64_t heads) {
  if (options.variant.query_key_norm == QueryKeyNorm::none) return std::nullopt;
  NormOptions norm{
      .features = options.d_k,
      .kind = options.norm_kind,
      .epsilon = options.epsilon,
      .weight = options.norm_weight && options.variant.query_key_norm != QueryKeyNorm::plain_head};
  if (options.variant.query_key_norm == QueryKeyNorm::all_heads) norm.features *= heads;
  if (options.variant.query_key_norm == QueryKeyNorm::each_head) {
    norm.parts = heads;
    norm.bias = false;
  }
  return Norm(norm);
}

std::optional<Norm> value_norm(const MultiheadAttentionOptions& options) {
  if (!options.variant.value_norm) return std::nullopt;
  return Norm({.features = options.d_v, .kind = NormKind::rms, .epsilon = options.epsilon, .weight = false});
}

// [tokens, heads * width], each head's features normalised alone.
Variable of_each_head(const Variable& x, int64_t heads, const Norm& norm) {
  const int64_t tokens = x.value().rows(), width = x.value().cols() / heads;
  const Variable rows = reshape(contiguous("attention", x), {tokens * heads, width});
  return reshape(norm(rows), {tokens, heads * width});
}

// ALiBi's slopes; Falcon's are multiplied by the scale of the scores.
Tensor slopes(const MultiheadAttentionOptions& options) {
  const PositionOptions& positions = options.variant.positions;
  if (positions.kind != PositionKind::alibi) return {};
  Tensor found = alibi_slopes(options.heads);
  if (!positions.alibi_scaled) return found;
  for (float& slope : found.values()) slope *= *options.variant.scale;
  return found;
}

std::shared_ptr<const LatentProjections> latent(const MultiheadAttentionOptions& options) {
  const AttentionVariant& variant = options.variant;
  if (variant.latent == LatentOptions()) return nullptr;
  return std::make_shared<const LatentProjections>(LatentSizes{.latent = variant.latent,
                                                               .d_model = options.d_model,
                                                               .heads = options.heads,
                                                               .rotated = variant.positions.rotary_features,
                                                               .d_k = options.d_k,
                                                               .d_v = options.d_v,
                                                               .query_bias = variant.bias.query,
                                                               .key_bias = variant.bias.key});
}

LinearWeights projections(const Parameter& q_weight, const Parameter& k_weight, const Parameter& v_weight,
                          const std::vector<Variable>& biases) {
  if (!v_weight.defined())
    return LinearWeights({q_weight.weight(), k_weight.weight()}, {biases[0], biases[1]});
  return LinearWeights({q_weight.weight(), k_weight.weight(), v_weight.weight()}, biases);
}

// Of queries at these positions, [tokens, 1].
Tensor growth(const RotaryScaling& scaling, const Tensor& positions) {
  Tensor factors = Tensor::empty({positions.numel(), 1});
  for (int64_t i = 0; i < positions.numel(); ++i)
    factors.data()[i] = static_cast<float>(query_growth(scaling, positions.data<int32_t>()[i]));
  return factors;
}

// x cut to [-limit, limit].
Variable clipped(const Variable& x, float limit) {
  const auto above = [&](const Variable& rows) { return activate(rows - limit, Activation::relu, {}); };
  return x - above(x) + above(-x);
}

}  // namespace

MultiheadAttention::MultiheadAttention(const MultiheadAttentionOptions& options)
    : options_(completed(options)),
      alibi_slopes_(slopes(options_)),
      latent_(latent(options_)),
      q_weight_(own_weight(options_, options_.heads * options_.d_k)),
      k_weight_(own_weight(options_, options_.key_heads * options_.d_k)),
      v_weight_(options_.variant.keys_as_values ? Parameter()
                                                : own_weight(options_, options_.key_heads * options_.d_v)),
      out_weight_(weight(options_.d_model, options_.heads * options_.d_v)),
      q_bias_(own_bias(options_, options_.variant.bias.query, options_.heads * options_.d_k)),
      k_bias_(own_bias(options_, options_.variant.bias.key, options_.key_heads * options_.d_k)),
      v_bias_(own_bias(options_, options_.variant.bias.value && !options_.variant.keys_as_values,
                       options_.key_heads * options_.d_v)),
      out_bias_(bias(options_.variant.bias.output, options_.d_model)),
      sinks_(bias(options_.variant.sinks, options_.heads)),
      q_norm_(norm(options_, options_.heads)),
      k_norm_(norm(options_, options_.key_heads)),
      v_norm_(value_norm(options_)),
      out_({out_weight_.weight()}, {out_bias_.variable}) {
  if (latent_) return;
  qkv_ = projections(q_weight_, k_weight_, v_weight_, {q_bias_.variable, k_bias_.variable, v_bias_.variable});
  q_.emplace(std::vector<Weight>{q_weight_.weight()}, std::vector<Variable>{q_bias_.variable});
  // Of cross attention, which has values of its own.
  kv_.emplace(std::vector<Weight>{k_weight_.weight(), own_values().weight()},
              std::vector<Variable>{k_bias_.variable, v_bias_.variable});
  k_.emplace(std::vector<Weight>{k_weight_.weight()}, std::vector<Variable>{k_bias_.variable});
  v_.emplace(std::vector<Weight>{own_values().weight()}, std::vector<Variable>{v_bias_.variable});
}

Variable MultiheadAttention::self(const Variable& x, const Offsets& offsets, const AttentionMask& mask,
                                  ForwardContext& context) const {
  const Heads heads = project(
      x, [&] { return position_ids(offsets); }, context.weight_layout());
  if (mask.distances.of_keys.defined()) return attend_by_distances(heads, offsets, mask, context);
  AttentionOptions options = description(true);
  options.query_offsets = options.key_offsets = offsets;
  return attend(heads, mask, context, std::move(options));
}

Variable MultiheadAttention::normalised(const Variable& x, int64_t heads,
                                        const std::optional<Norm>& norm) const {
  if (!norm) return x;
  const QueryKeyNorm kind = options_.variant.query_key_norm;
  if (kind == QueryKeyNorm::all_heads || kind == QueryKeyNorm::each_head)
    return (*norm)(contiguous("attention", x));
  return of_each_head(x, heads, *norm);
}

MultiheadAttention::Heads MultiheadAttention::project(const Variable& x,
                                                      const std::function<Tensor()>& positions,
                                                      WeightLayout layout) const {
  const bool grows = options_.variant.positions.rotary_scaling.query_growth != 0;
  const auto rotated = [&](const Variable& rows, int64_t heads, bool of_keys) {
    PositionOptions kind = options_.variant.positions;
    if (of_keys) kind.rotary_scaling.query_growth = 0;
    if (kind.kind != PositionKind::rotary) return rows;
    const Tensor places = positions();
    const auto numbers = places.values<int32_t>();
    const int64_t count = numbers.empty() ? 0 : int64_t{*std::ranges::max_element(numbers)} + 1;
    return rotary(rows, heads, rotary_table(kind, kind.rotary_features, count), places);
  };
  if (latent_) {
    // The growth is one of all features of a query, not of the rotated ones alone.
    const auto [query, key, value] = (*latent_)(
        x, [&](const Variable& rows, int64_t heads) { return rotated(rows, heads, true); }, layout);
    return {grows ? query * from_host(growth(options_.variant.positions.rotary_scaling, positions()),
                                      x.value().device())
                  : query,
            key, value};
  }
  const int64_t queries = options_.heads * options_.d_k;
  const int64_t keys = options_.key_heads * options_.d_k, values = options_.key_heads * options_.d_v;
  Variable qkv = linear(x, *qkv_, layout);
  if (options_.variant.clip > 0) qkv = clipped(qkv, options_.variant.clip);
  Variable value = qkv.columns(options_.variant.keys_as_values ? queries : queries + keys, values);
  if (v_norm_) value = of_each_head(value, options_.key_heads, *v_norm_);
  if (options_.variant.value_scale != 1) value = options_.variant.value_scale * value;
  if (!q_norm_ && !grows) {
    const Variable qk = rotated(qkv.columns(0, queries + keys), options_.heads + options_.key_heads, false);
    return {qk.columns(0, queries), qk.columns(queries, keys), value};
  }
  const auto one = [&](const Variable& rows, int64_t heads, const std::optional<Norm>& norm, bool of_keys) {
    if (options_.variant.query_key_norm == QueryKeyNorm::rotated_head)
      return normalised(rotated(rows, heads, of_keys), heads, norm);
    return rotated(normalised(rows, heads, norm), heads, of_keys);
  };
  return {one(qkv.columns(0, queries), options_.heads, q_norm_, false),
          one(qkv.columns(queries, keys), options_.key_heads, k_norm_, true), value};
}

Variable MultiheadAttention::cross(const Variable& x, const Offsets& offsets, const Variable& keys,
                                   const Variable& values, const Offsets& memory_offsets,
                                   const AttentionMask& mask, ForwardContext& context) const {
  const WeightLayout layout = context.weight_layout();
  Heads heads;
  heads.query = normalised(linear(x, *q_, layout), options_.heads, q_norm_);
  if (keys == values) {
    const int64_t width = options_.key_heads * options_.d_k;
    const Variable kv = linear(keys, *kv_, layout);
    heads.key = kv.columns(0, width);
    heads.value = kv.columns(width, options_.key_heads * options_.d_v);
  } else {
    heads.key = linear(keys, *k_, layout);
    heads.value = linear(values, *v_, layout);
  }
  heads.key = normalised(heads.key, options_.key_heads, k_norm_);
  AttentionOptions options = description(false);
  options.query_offsets = offsets;
  options.key_offsets = memory_offsets;
  return attend(heads, mask, context, std::move(options));
}

AttentionOptions MultiheadAttention::description(bool self) const {
  return {.window = self ? options_.variant.window : 0,
          .alibi_slopes = self ? alibi_slopes_ : Tensor(),
          .sinks = sinks_.variable,
          .scale = options_.variant.scale,
          .softcap = options_.variant.softcap,
          .key_heads = options_.key_heads};
}

AttentionResult MultiheadAttention::attended(const Heads& heads, const AttentionMask& mask,
                                             const ForwardContext& context, AttentionOptions options) const {
  options.causal = mask.causal;
  options.alignment = mask.alignment;
  options.keep = mask.keep;
  options.bias = mask.bias;
  options.relative_bias = mask.relative_bias;
  if (context.training) options.operands = context.operands;
  options.return_weights = static_cast<bool>(context.observer);
  return multihead_attention(heads.query, heads.key, heads.value, options_.heads, options);
}

Variable MultiheadAttention::attend(const Heads& heads, const AttentionMask& mask, ForwardContext& context,
                                    AttentionOptions options) const {
  options.dropout = context.dropout(options_.dropout);
  const AttentionResult result = attended(heads, mask, context, std::move(options));
  if (context.observer) context.observer(NameScope::current(), result.weights);
  return linear(result.output, out_, context.weight_layout());
}

void MultiheadAttention::visit(const ParameterVisitor& visitor) const {
  const auto both = [&](const std::string& name, const Parameter& weight_in, const Parameter& bias_in) {
    visitor(name + ".weight", weight_in);
    if (bias_in.defined()) visitor(name + ".bias", bias_in);
  };
  if (latent_) latent_->visit(visitor);
  if (q_weight_.defined()) both("q_proj", q_weight_, q_bias_);
  if (k_weight_.defined()) both("k_proj", k_weight_, k_bias_);
  if (v_weight_.defined()) both("v_proj", v_weight_, v_bias_);
  both("out_proj", out_weight_, out_bias_);
  if (sinks_.defined()) visitor("sinks", sinks_);
  if (q_norm_) {
    visit_part(visitor, "q_norm", *q_norm_);
    visit_part(visitor, "k_norm", *k_norm_);
  }
}

}  // namespace qkv::nn
