#include "qkv/nn/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "qkv/base/scope.h"
#include "qkv/nn/latent_attention.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/attention_rule.h"
#include "qkv/ops/convert.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/contiguous.h"
#include "qkv/ops/general/distance_scores.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/general/slice.h"
#include "qkv/ops/profile.h"
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

// The rows attend to positions of a cache of this dtype. Optional: the weights of row r, [heads, length],
// from element weight_offsets[r] of `weights` on.
Tensor cached_attention(const Tensor& query, std::span<const kernels::CacheRow> rows, DType dtype,
                        const MultiheadAttentionOptions& options, const AttentionOptions& description,
                        std::span<const int64_t> weight_offsets = {}, const Tensor& weights = {}) {
  const ProfileScope profile("attention");
  Tensor output = Tensor::empty({query.rows(), options.heads * options.d_v}, query.dtype(), query.device());
  kernels::attention_cached({.query = query,
                             .rows = rows,
                             .d_k = options.d_k,
                             .d_v = options.d_v,
                             .rule = attention_rule(description, options.heads, options.d_k, query.device()),
                             .dtype = dtype,
                             .output = output,
                             .weight_offsets = weight_offsets,
                             .weights = weights});
  return output;
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

MultiheadAttentionOptions completed(MultiheadAttentionOptions options) {
  if (options.d_model < 1 || options.heads < 1) {
    throw UsageError(concat("attention: d_model and heads must be at least 1, found ", options.d_model,
                            " and ", options.heads));
  }
  constexpr int64_t kMaxSize = INT32_MAX;  // products of two fit 64 bits
  const std::pair<const char*, int64_t> sizes[] = {{"d_model", options.d_model},
                                                   {"heads", options.heads},
                                                   {"key_heads", options.key_heads},
                                                   {"d_k", options.d_k},
                                                   {"d_v", options.d_v}};
  for (const auto& [name, size] : sizes) {
    if (size < 0 || size > kMaxSize) {
      throw UsageError(
          concat("attention: ", name, ": expected a size from 0 to ", kMaxSize, ", found ", size));
    }
  }
  if (!(options.variant.softcap >= 0) || std::isinf(options.variant.softcap))
    throw UsageError(concat("attention: softcap: expected 0 (none) or a positive number, found ",
                            options.variant.softcap));
  if ((options.d_k == 0 || options.d_v == 0) && options.d_model % options.heads != 0) {
    throw UsageError(concat("attention: ", options.heads, " heads do not divide d_model ", options.d_model,
                            "; give d_k and d_v"));
  }
  const auto fill = [](int64_t& field, int64_t value) {
    if (field == 0) field = value;
  };
  fill(options.key_heads, options.heads);
  if (options.key_heads < 1 || options.heads % options.key_heads != 0) {
    throw UsageError(
        concat("attention: key_heads must divide heads, found ", options.key_heads, " and ", options.heads));
  }
  fill(options.d_k, options.d_model / options.heads);
  fill(options.d_v, options.d_model / options.heads);
  PositionOptions& positions = options.variant.positions;
  if (positions.kind == PositionKind::rotary) {
    if (positions.rotary_features == 0 && options.d_k % 2 != 0)
      throw UsageError(concat("attention: rotary positions need an even d_k, found ", options.d_k));
    fill(positions.rotary_features, options.d_k);
    if (positions.rotary_features < 2 || positions.rotary_features % 2 != 0 ||
        positions.rotary_features > options.d_k) {
      throw UsageError(concat("attention: rotary_features: expected 0 (all) or an even number up to d_k ",
                              options.d_k, ", found ", positions.rotary_features));
    }
    if (positions.rotary_scaling.query_growth != 0 && positions.rotary_features != options.d_k &&
        options.variant.latent == LatentOptions())
      throw UsageError(concat("attention: query_growth: expected all ", options.d_k,
                              " features of a head rotated, found ", positions.rotary_features));
  }
  if (!options.variant.scale) options.variant.scale = 1.0f / std::sqrt(static_cast<float>(options.d_k));
  if (!(options.variant.clip >= 0))
    throw UsageError(
        concat("attention: clip: expected 0 (none) or a positive number, found ", options.variant.clip));
  if (options.variant.keys_as_values && options.d_k != options.d_v)
    throw UsageError(
        concat("attention: keys_as_values: expected a d_v of d_k, ", options.d_k, ", found ", options.d_v));
  if (options.variant.latent != LatentOptions() &&
      (positions.kind != PositionKind::rotary || options.variant.value_scale != 1 ||
       options.key_heads != options.heads || options.variant.query_key_norm != QueryKeyNorm::none ||
       options.variant.clip > 0 || options.variant.keys_as_values || options.variant.value_norm))
    throw UsageError(
        "attention: latent: expected rotary positions and as many key heads as heads, without norms of "
        "heads, "
        "value_scale, clip and keys_as_values, found another variant");
  if (options.variant.window < 0)
    throw UsageError(
        concat("attention: window: expected 0 (all positions) or more, found ", options.variant.window));
  return options;
}

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

// In groups of sequences, as the scores by distance of all could be many.
Variable MultiheadAttention::attend_by_distances(const Heads& heads, const Offsets& offsets,
                                                 const AttentionMask& mask, ForwardContext& context) const {
  if (mask.keep.defined() || mask.bias.defined() || !k_ || options_.key_heads != options_.heads)
    throw UsageError(
        "attention: disentangled positions: expected as many heads of keys as of queries, no keep and no "
        "bias, found others");
  constexpr int64_t kMostScores = int64_t{4} << 20;  // of a group
  const WeightLayout layout = context.weight_layout();
  const Variable of_keys = to_f32(linear(mask.distances.of_keys, *k_, layout)),
                 of_queries = to_f32(linear(mask.distances.of_queries, *q_, layout));
  const int64_t longest = (of_keys.value().rows() + 1) / 2;
  const Dropout dropout = context.dropout(options_.dropout);
  const Variable queries = contiguous("attention", heads.query), keys = contiguous("attention", heads.key),
                 values = contiguous("attention", heads.value);
  std::vector<Variable> outputs;
  std::vector<Tensor> weights;
  for (int64_t s = 0; s < offsets.sequences();) {
    const int64_t first = offsets.begin(s);
    std::vector<int32_t> ends{0};
    for (int64_t n = 0; s < offsets.sequences(); ++s) {
      n = std::max(n, offsets.length(s));
      if (ends.size() > 1 && std::ssize(ends) * options_.heads * n * n > kMostScores) break;
      ends.push_back(static_cast<int32_t>(offsets.end(s) - first));
    }
    const Offsets group(std::move(ends));
    const int64_t tokens = group.tokens(), n = group.max_length();
    if (tokens == 0) {
      weights.resize(weights.size() + static_cast<size_t>(context.observer ? group.sequences() : 0));
      continue;
    }
    const auto rows = [&](const Variable& x) {
      return tokens == x.shape()[0] ? x : slice(x, 0, first, tokens);
    };
    const auto nearest = [&](const Variable& x) {
      return n == longest ? x : slice(x, 0, longest - n, 2 * n - 1);
    };
    const Heads own{rows(queries), rows(keys), rows(values)};
    AttentionMask with_scores = mask;
    with_scores.bias = distance_scores(to_f32(own.query), to_f32(own.key), nearest(of_keys),
                                       nearest(of_queries), group, options_.heads, *options_.variant.scale);
    AttentionOptions options = description(true);
    options.query_offsets = options.key_offsets = group;
    options.dropout = dropout;
    options.dropout.first_row += static_cast<uint32_t>(first);
    const AttentionResult result = attended(own, with_scores, context, std::move(options));
    outputs.push_back(result.output);
    weights.insert(weights.end(), result.weights.begin(), result.weights.end());
  }
  if (context.observer) context.observer(NameScope::current(), weights);
  if (outputs.empty()) outputs.push_back(values);
  return linear(outputs.size() == 1 ? outputs.front() : concatenate(outputs, 0), out_, layout);
}

Tensor MultiheadAttention::self_read(const Tensor& x, const Offsets& offsets, KeyValueCache& cache,
                                     const Tensor& relative_bias) const {
  const Tensor first = cache.lengths();
  if (offsets.sequences() != cache.rows() || offsets.tokens() != x.rows()) {
    throw ShapeError(concat("attention: expected x of ", offsets.tokens(), " tokens for ", cache.rows(),
                            " rows of the cache, found ", x.shape(), " for ", offsets.sequences()));
  }
  const Heads heads = project(
      x, [&] { return position_ids(offsets, first); }, WeightLayout::in_place);
  cache.append(heads.key.value(), heads.value.value(), offsets);
  // A row's keys are read from the cache, in its dtype, so that chunking does not affect the bits. New rows
  // that it stores exactly are used directly.
  const Offsets cached = cache.entry_offsets();
  Variable key = heads.key, value = heads.value;
  const DType dtype = heads.key.value().dtype();
  if (!(cached == offsets) || (cache.dtype() != DType::f32 && cache.dtype() != dtype)) {
    const int64_t key_width = heads.key.value().cols(), value_width = heads.value.value().cols();
    const Tensor all = cache.load(dtype);
    key = all.columns(0, key_width);
    value = all.columns(key_width, value_width);
  }
  AttentionOptions options = description(true);
  options.causal = options.fixed_order = true;
  if (relative_bias.defined()) options.relative_bias = relative_bias;
  options.query_offsets = offsets;
  options.key_offsets = cached;
  const AttentionResult result = multihead_attention(heads.query, key, value, options_.heads, options);
  cache.forget();
  return linear(result.output, out_, WeightLayout::in_place).value();
}

Tensor MultiheadAttention::self_step(const Tensor& x, KeyValueCache& cache,
                                     const Tensor& relative_bias) const {
  const Heads heads = project(
      x, [&] { return cache.lengths(); }, WeightLayout::in_place);
  cache.append(heads.key.value(), heads.value.value(), Offsets::uniform(x.rows(), 1));
  const std::vector<kernels::CacheRow> rows =
      cache.positions(options_.variant.window == 0 ? INT64_MAX : options_.variant.window);
  if (relative_bias.defined()) {
    int64_t longest = 1;
    for (const kernels::CacheRow& row : rows) longest = std::max(longest, std::ssize(row.numbers));
    if (relative_bias.rank() != 2 || !relative_bias.contiguous() || relative_bias.dim(0) != options_.heads ||
        relative_bias.dim(1) % 2 == 0 || relative_bias.dim(1) < 2 * longest - 1) {
      throw ShapeError(concat("attention: relative_bias ", relative_bias.shape(), " is not [", options_.heads,
                              ", 2 n - 1] with n of at least ", longest, " positions"));
    }
  }
  AttentionOptions options = description(true);
  if (relative_bias.defined()) options.relative_bias = relative_bias;
  const Tensor attended = cached_attention(heads.query.value(), rows, cache.dtype(), options_, options);
  cache.forget();
  return linear(attended, out_, WeightLayout::in_place).value();
}

MemoryKeyValues MultiheadAttention::encode_memory(const Tensor& memory, const Offsets& offsets,
                                                  DType dtype) const {
  const Tensor kv = linear(memory, *kv_).value();
  if (k_norm_) {
    Tensor keys = kv.columns(0, options_.key_heads * options_.d_k);
    keys.copy_from(normalised(keys, options_.key_heads, k_norm_).value());
  }
  return {kv, offsets, dtype};
}

Tensor MultiheadAttention::cross_step(const Tensor& x, const Offsets& hypothesis_offsets,
                                      const MemoryKeyValues& memory,
                                      std::vector<std::vector<float>>* weights) const {
  if (x.rows() != hypothesis_offsets.tokens() || memory.sentences() != hypothesis_offsets.sequences()) {
    throw ShapeError(concat("attention: expected a row for each of the ", hypothesis_offsets.tokens(),
                            " hypotheses of ", hypothesis_offsets.sequences(), " sentences, found ",
                            x.shape(), " and the memory of ", memory.sentences(), " sentences"));
  }
  const int64_t width = options_.key_heads * (options_.d_k + options_.d_v);
  if (memory.sentences() > 0 && memory.width() != width) {
    throw ShapeError(concat("attention: expected memory with keys and values of ", width, " features, found ",
                            memory.width()));
  }
  std::vector<kernels::CacheRow> rows;
  for (int64_t s = 0; s < hypothesis_offsets.sequences(); ++s) {
    for (int64_t row = hypothesis_offsets.begin(s); row < hypothesis_offsets.end(s); ++row)
      rows.push_back(memory.tokens(s));
  }
  const Tensor query = normalised(linear(x, *q_), options_.heads, q_norm_).value();
  const AttentionOptions options = description(false);
  if (weights == nullptr) {
    return linear(cached_attention(query, rows, memory.dtype(), options_, options), out_,
                  WeightLayout::in_place)
        .value();
  }

  // [heads, keys] of each row, concatenated.
  std::vector<int64_t> offsets;
  int64_t total = 0;
  for (const kernels::CacheRow& row : rows) {
    offsets.push_back(total);
    total += options_.heads * std::ssize(row.numbers);
  }
  const Tensor all = Tensor::empty({total}, DType::f32, query.device());
  const Tensor output = cached_attention(query, rows, memory.dtype(), options_, options, offsets, all);
  const Tensor on_host = to_host(all);
  weights->clear();
  for (const float* of_row = on_host.data(); const kernels::CacheRow& row : rows) {
    const auto length = static_cast<int64_t>(row.numbers.size());
    std::vector<float>& mean = weights->emplace_back(of_row, of_row + length);
    for (int64_t head = 1; head < options_.heads; ++head) {
      for (int64_t key = 0; key < length; ++key)
        mean[static_cast<size_t>(key)] += of_row[head * length + key];
    }
    for (float& weight : mean) weight /= static_cast<float>(options_.heads);
    of_row += options_.heads * length;
  }
  return linear(output, out_, WeightLayout::in_place).value();
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
