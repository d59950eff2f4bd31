#include "qkv/nn/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "qkv/base/scope.h"
#include "qkv/kernels/attention.h"
#include "qkv/ops/profile.h"

namespace qkv::nn {
namespace {

Parameter weight(int64_t outputs, int64_t inputs) {
  return Parameter::weight_matrix(Shape{outputs, inputs}, {Initializer::Kind::xavier_uniform});
}

Parameter bias(bool wanted, int64_t outputs) {
  return wanted ? Parameter(Shape{outputs}, {Initializer::Kind::zeros}) : Parameter();
}

// For each row of a step, the cache entries that it attends to.
struct RowEntries {
  explicit RowEntries(DType of) : dtype(of) {}

  DType dtype;
  std::vector<const void* const*> entries;
  std::vector<int32_t> lengths;

  void add(std::span<const void* const> row) {
    entries.push_back(row.data());
    lengths.push_back(static_cast<int32_t>(row.size()));
  }
};

// Optional arguments of a step.
struct CachedOptions {
  Tensor alibi_slopes = {}, relative_bias = {};
  // Outputs for the weights [heads, length] of each row; empty: not returned.
  std::span<float* const> weights = {};
};

Tensor cached_attention(const Tensor& query, const RowEntries& rows, const MultiheadAttentionOptions& options,
                        const CachedOptions& more = {}) {
  const ProfileScope profile("attention");
  Tensor output = Tensor::empty({query.rows(), options.heads * options.d_v}, DType::f32, query.device());
  kernels::attention_cached({.query = query,
                             .heads = options.heads,
                             .key_heads = options.key_heads,
                             .d_k = options.d_k,
                             .d_v = options.d_v,
                             .scale = *options.variant.scale,
                             .softcap = options.variant.softcap,
                             .dtype = rows.dtype,
                             .entries = rows.entries,
                             .lengths = rows.lengths,
                             .alibi_slopes = from_host(more.alibi_slopes, query.device()),
                             .relative_bias = more.relative_bias,
                             .output = output,
                             .weights = more.weights});
  return output;
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
  if (options.variant.positions.kind == PositionKind::rotary && options.d_k % 2 != 0) {
    throw UsageError(concat("attention: rotary positions need an even d_k, found ", options.d_k));
  }
  if (!options.variant.scale) options.variant.scale = 1.0f / std::sqrt(static_cast<float>(options.d_k));
  if (options.variant.window < 0)
    throw UsageError(
        concat("attention: window: expected 0 (all positions) or more, found ", options.variant.window));
  return options;
}

MultiheadAttention::MultiheadAttention(const MultiheadAttentionOptions& options)
    : options_(completed(options)),
      alibi_slopes_(options.variant.positions.kind == PositionKind::alibi ? alibi_slopes(options.heads)
                                                                          : Tensor()),
      q_weight_(weight(options_.heads * options_.d_k, options_.d_model)),
      k_weight_(weight(options_.key_heads * options_.d_k, options_.d_model)),
      v_weight_(weight(options_.key_heads * options_.d_v, options_.d_model)),
      out_weight_(weight(options_.d_model, options_.heads * options_.d_v)),
      q_bias_(bias(options_.variant.bias.query, options_.heads * options_.d_k)),
      k_bias_(bias(options_.variant.bias.key, options_.key_heads * options_.d_k)),
      v_bias_(bias(options_.variant.bias.value, options_.key_heads * options_.d_v)),
      out_bias_(bias(options_.variant.bias.output, options_.d_model)),
      qkv_({q_weight_.weight(), k_weight_.weight(), v_weight_.weight()},
           {q_bias_.variable, k_bias_.variable, v_bias_.variable}),
      q_({q_weight_.weight()}, {q_bias_.variable}),
      kv_({k_weight_.weight(), v_weight_.weight()}, {k_bias_.variable, v_bias_.variable}),
      k_({k_weight_.weight()}, {k_bias_.variable}),
      v_({v_weight_.weight()}, {v_bias_.variable}),
      out_({out_weight_.weight()}, {out_bias_.variable}) {}

Variable MultiheadAttention::self(const Variable& x, const Offsets& offsets, const AttentionMask& mask,
                                  ForwardContext& context) const {
  const Heads heads = project(
      x, [&] { return position_ids(offsets); }, context.weight_layout());
  return attend(heads.query, heads.key, heads.value, offsets, offsets, mask, context, alibi_slopes_);
}

MultiheadAttention::Heads MultiheadAttention::project(const Variable& x,
                                                      const std::function<Tensor()>& positions,
                                                      WeightLayout layout) const {
  const int64_t queries = options_.heads * options_.d_k;
  const int64_t keys = options_.key_heads * options_.d_k, values = options_.key_heads * options_.d_v;
  const Variable qkv = linear(x, qkv_, layout);
  Variable qk = qkv;
  if (options_.variant.positions.kind == PositionKind::rotary) {
    const Tensor places = positions();
    const auto numbers = places.values<int32_t>();
    const int64_t count = numbers.empty() ? 0 : int64_t{*std::ranges::max_element(numbers)} + 1;
    qk = rotary(qkv.columns(0, queries + keys), options_.heads + options_.key_heads,
                rotary_table(options_.variant.positions, options_.d_k, count), places);
  }
  return {qk.columns(0, queries), qk.columns(queries, keys), qkv.columns(queries + keys, values)};
}

Variable MultiheadAttention::cross(const Variable& x, const Offsets& offsets, const Variable& keys,
                                   const Variable& values, const Offsets& memory_offsets,
                                   const AttentionMask& mask, ForwardContext& context) const {
  const WeightLayout layout = context.weight_layout();
  const Variable query = linear(x, q_, layout);
  if (!(keys == values)) {
    return attend(query, linear(keys, k_, layout), linear(values, v_, layout), offsets, memory_offsets, mask,
                  context);
  }
  const int64_t key_width = options_.key_heads * options_.d_k,
                value_width = options_.key_heads * options_.d_v;
  const Variable kv = linear(keys, kv_, layout);
  return attend(query, kv.columns(0, key_width), kv.columns(key_width, value_width), offsets, memory_offsets,
                mask, context);
}

Variable MultiheadAttention::attend(const Variable& query, const Variable& key, const Variable& value,
                                    const Offsets& query_offsets, const Offsets& key_offsets,
                                    const AttentionMask& mask, ForwardContext& context,
                                    const Tensor& alibi_slopes) const {
  const AttentionResult result = multihead_attention(query, key, value, options_.heads,
                                                     {.causal = mask.causal,
                                                      .alignment = mask.alignment,
                                                      .window = mask.causal ? options_.variant.window : 0,
                                                      .keep = mask.keep,
                                                      .bias = mask.bias,
                                                      .alibi_slopes = alibi_slopes,
                                                      .relative_bias = mask.relative_bias,
                                                      .scale = options_.variant.scale,
                                                      .softcap = options_.variant.softcap,
                                                      .dropout = context.dropout(options_.dropout),
                                                      .query_offsets = query_offsets,
                                                      .key_offsets = key_offsets,
                                                      .key_heads = options_.key_heads,
                                                      .return_weights = static_cast<bool>(context.observer)});
  if (context.observer) context.observer(NameScope::current(), result.weights);
  return linear(result.output, out_, context.weight_layout());
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
  // A row's keys are read from the cache, in its dtype, so that chunking does not affect the bits. New f32
  // rows are used directly.
  const Offsets cached = cache.entry_offsets();
  Variable key = heads.key, value = heads.value;
  if (!(cached == offsets) || cache.dtype() != DType::f32) {
    const int64_t key_width = heads.key.value().cols(), value_width = heads.value.value().cols();
    const Tensor all = cache.load();
    key = all.columns(0, key_width);
    value = all.columns(key_width, value_width);
  }
  const AttentionResult result =
      multihead_attention(heads.query, key, value, options_.heads,
                          {.causal = true,
                           .window = options_.variant.window,
                           .fixed_order = true,
                           .alibi_slopes = alibi_slopes_,
                           .relative_bias = relative_bias.defined() ? Variable(relative_bias) : Variable(),
                           .scale = options_.variant.scale,
                           .softcap = options_.variant.softcap,
                           .query_offsets = offsets,
                           .key_offsets = cached,
                           .key_heads = options_.key_heads});
  cache.forget();
  return linear(result.output, out_, WeightLayout::in_place).value();
}

Tensor MultiheadAttention::self_step(const Tensor& x, KeyValueCache& cache,
                                     const Tensor& relative_bias) const {
  const Heads heads = project(
      x, [&] { return cache.lengths(); }, WeightLayout::in_place);
  cache.append(heads.key.value(), heads.value.value(), Offsets::uniform(x.rows(), 1));
  RowEntries rows(cache.dtype());
  const int64_t seen = options_.variant.window == 0 ? INT64_MAX : options_.variant.window;
  for (int64_t row = 0; row < cache.rows(); ++row) rows.add(cache.entries(row, seen));
  if (relative_bias.defined()) {
    const int64_t longest = rows.lengths.empty() ? 1 : *std::ranges::max_element(rows.lengths);
    if (relative_bias.rank() != 2 || !relative_bias.contiguous() || relative_bias.dim(0) != options_.heads ||
        relative_bias.dim(1) % 2 == 0 || relative_bias.dim(1) < 2 * longest - 1) {
      throw ShapeError(concat("attention: relative_bias ", relative_bias.shape(), " is not [", options_.heads,
                              ", 2 n - 1] with n of at least ", longest, " positions"));
    }
  }
  const CachedOptions more{.alibi_slopes = alibi_slopes_, .relative_bias = relative_bias};
  const Tensor attended = cached_attention(heads.query.value(), rows, options_, more);
  cache.forget();
  return linear(attended, out_, WeightLayout::in_place).value();
}

MemoryKeyValues MultiheadAttention::encode_memory(const Tensor& memory, const Offsets& offsets,
                                                  DType dtype) const {
  return {linear(memory, kv_).value(), offsets, dtype};
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
  RowEntries rows(memory.dtype());
  for (int64_t s = 0; s < hypothesis_offsets.sequences(); ++s) {
    for (int64_t row = hypothesis_offsets.begin(s); row < hypothesis_offsets.end(s); ++row)
      rows.add(memory.entries(s));
  }
  const Tensor query = linear(x, q_).value();
  if (weights == nullptr) {
    return linear(cached_attention(query, rows, options_), out_, WeightLayout::in_place).value();
  }

  // [heads, keys] of each row, concatenated.
  int64_t total = 0;
  for (const int32_t length : rows.lengths) total += options_.heads * length;
  Tensor all = Tensor::empty({total}, DType::f32, query.device());
  std::vector<float*> addresses;
  for (int64_t first = 0; const int32_t length : rows.lengths) {
    addresses.push_back(all.device_data() + first);
    first += options_.heads * length;
  }
  const Tensor output = cached_attention(query, rows, options_, {.weights = addresses});
  const Tensor on_host = to_host(all);
  weights->clear();
  for (const float* of_row = on_host.data(); const int32_t length : rows.lengths) {
    std::vector<float>& mean = weights->emplace_back(of_row, of_row + length);
    for (int64_t head = 1; head < options_.heads; ++head) {
      for (int32_t key = 0; key < length; ++key)
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
  both("q_proj", q_weight_, q_bias_);
  both("k_proj", k_weight_, k_bias_);
  both("v_proj", v_weight_, v_bias_);
  both("out_proj", out_weight_, out_bias_);
}

}  // namespace qkv::nn
