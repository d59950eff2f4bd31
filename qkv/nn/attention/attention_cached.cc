// Decoding: attention to the positions of a cache.

#include <algorithm>

#include "qkv/nn/attention/attention.h"
#include "qkv/ops/attention_rule.h"
#include "qkv/ops/profile.h"

namespace qkv::nn {
namespace {

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

}  // namespace

Tensor MultiheadAttention::self_read(const Tensor& x, const Offsets& offsets, KeyValueCache& cache,
                                     const Tensor& relative_bias, bool causal) const {
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
  options.causal = causal;
  options.fixed_order = true;
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

}  // namespace qkv::nn
