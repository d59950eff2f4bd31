#include "qkv/kernels/attention.h"

#include <algorithm>
#include <numeric>

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {
namespace {

template <class View, class Element>
View repeating(const Tensor& mask) {
  if (!mask.defined()) return {};
  const int64_t row = mask.dim(3), head = mask.dim(2) * row, batch = mask.dim(1) * head;
  return {.data = address<Element>(mask),
          .batch_stride = mask.dim(0) == 1 ? 0 : batch,
          .head_stride = mask.dim(1) == 1 ? 0 : head,
          .query_stride = mask.dim(2) == 1 ? 0 : row};
}

RelativeBias relative(const Tensor& bias) {
  if (!bias.defined()) return {};
  return {address(bias), bias.dim(1), bias.dim(1) / 2};
}

AttentionShape shape_of(const AttentionTensors& a) {
  const AttentionRule& rule = a.rule;
  return {.sequences = a.query_offsets.sequences(),
          .query_offsets = a.query_offsets.data(),
          .key_offsets = a.key_offsets.data(),
          .heads = rule.heads,
          .key_heads = rule.key_heads,
          .d_k = a.query.cols() / rule.heads,
          .d_v = a.value.cols() / rule.key_heads,
          .scale = rule.scale,
          .softcap = rule.softcap,
          .causal = rule.causal,
          .alignment = rule.alignment,
          .window = rule.window,
          .fixed_order = rule.fixed_order,
          .operands = rule.operands,
          .keep = repeating<KeepMask, uint8_t>(rule.keep),
          .bias = repeating<ScoreBias, float>(rule.bias),
          .alibi_slopes = input(rule.alibi_slopes),
          .relative = relative(rule.relative_bias),
          .sinks = input(rule.sinks),
          .dropout = rule.dropout};
}

AttentionInput input_of(const AttentionTensors& a) {
  return {.query = elements(a.query),
          .key = elements(a.key),
          .value = elements(a.value),
          .query_stride = a.query.row_stride(),
          .key_stride = a.key.row_stride(),
          .value_stride = a.value.row_stride()};
}

template <class... Others>
const Backend& backend_for(const char* name, const AttentionRule& rule, const Others&... others) {
  return backend_of(name, others..., rule.keep, rule.bias, rule.alibi_slopes, rule.relative_bias, rule.sinks);
}

// Number of pairs of query i and key j with j < i + first.
int64_t pairs_below(int64_t queries, int64_t keys, int64_t first) {
  // Queries that see a key, and those among them that do not see all.
  const int64_t blind = std::clamp<int64_t>(-first, 0, queries);
  const int64_t partial = std::clamp<int64_t>(keys - first, 0, queries) - blind;
  if (partial <= 0) return (queries - blind) * keys;
  const int64_t begin = blind + first;
  return partial * begin + partial * (partial - 1) / 2 + (queries - blind - partial) * keys;
}

// Number of (query, key) pairs that causality and the window allow, over all heads.
uint64_t attention_pairs(const AttentionShape& shape) {
  int64_t pairs = 0;
  for (int64_t s = 0; s < shape.sequences; ++s) {
    const int64_t queries = shape.query_offsets[s + 1] - shape.query_offsets[s];
    const int64_t keys = shape.key_offsets[s + 1] - shape.key_offsets[s];
    if (!shape.causal && shape.window == 0) {
      pairs += queries * keys;
      continue;
    }
    // Query i is at the place of key i + shift. The keys up to the last that it sees, without those that the
    // window excludes.
    const int64_t shift = shape.alignment == Alignment::last_key ? keys - queries : 0;
    pairs += pairs_below(queries, keys, shift + (shape.causal ? 1 : shape.window));
    if (shape.window > 0) pairs -= pairs_below(queries, keys, shift + 1 - shape.window);
  }
  return static_cast<uint64_t>(pairs * shape.heads);
}

// Elements of queries and outputs.
int64_t query_elements(const AttentionShape& shape) {
  return int64_t{shape.query_offsets[shape.sequences]} * shape.heads * (shape.d_k + shape.d_v);
}

// Elements of keys and values of the sequences with queries.
int64_t key_elements(const AttentionShape& shape) {
  int64_t keys = 0;
  for (int64_t s = 0; s < shape.sequences; ++s) {
    if (shape.query_offsets[s + 1] > shape.query_offsets[s])
      keys += shape.key_offsets[s + 1] - shape.key_offsets[s];
  }
  return keys * (shape.heads / shape.query_heads_per_key()) * (shape.d_k + shape.d_v);
}

}  // namespace

void attention_forward(const AttentionTensors& a, AttentionResultTensors r) {
  const AttentionShape shape = shape_of(a);
  count_macs(attention_pairs(shape) * static_cast<uint64_t>(shape.d_k + shape.d_v));
  count_elements(query_elements(shape) + key_elements(shape));
  backend_for("attention_forward", a.rule, a.query, a.key, a.value, r.output, r.log_sum_exp, r.weights,
              r.scores, r.top_weights, r.top_keys)
      .attention_forward(shape, input_of(a),
                         {.output = mutable_elements(r.output),
                          .output_stride = r.output.row_stride(),
                          .log_sum_exp = address(r.log_sum_exp),
                          .capture = {.offsets = r.weight_offsets.empty() ? nullptr : r.weight_offsets.data(),
                                      .weights = address(r.weights),
                                      .scores = address(r.scores),
                                      .top = r.top_weights.defined() ? r.top_weights.cols() : 0,
                                      .top_weights = address(r.top_weights),
                                      .top_keys = address<int32_t>(r.top_keys)}});
}

void attention_backward(const AttentionTensors& a, const Tensor& output, const Tensor& log_sum_exp,
                        const Tensor& grad_output, AttentionGradientTensors gradients) {
  const AttentionShape shape = shape_of(a);
  auto &dq = gradients.query, &dk = gradients.key, &dv = gradients.value;
  const auto wanted = [](const GradientSlot& slot) { return static_cast<int64_t>(slot.tensor.defined()); };
  // dV, dP, dQ and dK; recomputed scores do not count.
  count_macs(attention_pairs(shape) *
             static_cast<uint64_t>((wanted(dq) + wanted(dk)) * shape.d_k + (1 + wanted(dv)) * shape.d_v));
  // Each input is read and its gradient written; the output's gradient is read.
  count_elements(2 * (query_elements(shape) + key_elements(shape)));
  backend_for("attention_backward", a.rule, a.query, a.key, a.value, output, log_sum_exp, grad_output,
              dq.tensor, dk.tensor, dv.tensor, gradients.bias, gradients.relative_bias, gradients.sinks)
      .attention_backward(shape, input_of(a), elements(output), output.row_stride(), address(log_sum_exp),
                          elements(grad_output), grad_output.row_stride(),
                          {.query = mutable_elements(dq.tensor),
                           .key = mutable_elements(dk.tensor),
                           .value = mutable_elements(dv.tensor),
                           .query_stride = dq.tensor.row_stride(),
                           .key_stride = dk.tensor.row_stride(),
                           .value_stride = dv.tensor.row_stride(),
                           .query_accumulate = dq.accumulate,
                           .key_accumulate = dk.accumulate,
                           .value_accumulate = dv.accumulate,
                           .bias = address(gradients.bias),
                           .relative = address(gradients.relative_bias),
                           .sinks = address(gradients.sinks)});
}

void attention_cached(CachedAttentionTensors a) {
  const AttentionRule& rule = a.rule;
  int64_t positions = 0;
  for (const CacheRow& row : a.rows) positions += std::ssize(row.numbers);
  const int64_t width = a.d_k + a.d_v;
  count_macs(static_cast<uint64_t>(positions * rule.heads * width));
  count_elements(a.query.rows() * rule.heads * width);
  count_bytes(static_cast<int64_t>(bytes_of(a.dtype, positions * rule.key_heads * width)));
  backend_for("attention_cached", rule, a.query, a.output)
      .attention_cached({.rows = a.rows,
                         .heads = rule.heads,
                         .key_heads = rule.key_heads,
                         .d_k = a.d_k,
                         .d_v = a.d_v,
                         .scale = rule.scale,
                         .softcap = rule.softcap,
                         .query = elements(a.query),
                         .query_stride = a.query.row_stride(),
                         .dtype = a.dtype,
                         .alibi_slopes = input(rule.alibi_slopes),
                         .relative = relative(rule.relative_bias),
                         .sinks = input(rule.sinks),
                         .output = mutable_elements(a.output),
                         .output_stride = a.output.row_stride(),
                         .weight_offsets = a.weight_offsets.data(),
                         .weights = address(a.weights)});
}

int64_t attention_key_group(Device device) { return backend(device).attention_key_group(); }

}  // namespace qkv::kernels
