#include "qkv/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "qkv/kernels/attention.h"
#include "qkv/ops/functions.h"
#include "qkv/ops/profile.h"

namespace qkv {
namespace {

using kernels::AttentionShape;

constexpr const char* kName = "attention";

// A mask or bias [batch | 1, heads | 1, queries | 1, keys] as strides of the kernel; extents of 1 repeat.
template <class View>
View broadcast(const char* what, const Tensor& mask, const Offsets& query, const Offsets& key,
               int64_t heads) {
  if (!mask.defined()) return {};
  const auto fits = [](int64_t extent, int64_t wanted) { return extent == 1 || extent >= wanted; };
  if (mask.rank() != 4 || !mask.contiguous() || (mask.dim(0) != 1 && mask.dim(0) != query.sequences()) ||
      (mask.dim(1) != 1 && mask.dim(1) != heads) || !fits(mask.dim(2), query.max_length()) ||
      mask.dim(3) < key.max_length()) {
    throw ShapeError(concat(kName, ": ", what, " ", mask.shape(), " does not fit [", query.sequences(),
                            " or 1, ", heads, " or 1, ", query.max_length(), " or 1, ", key.max_length(),
                            "]"));
  }
  View view;
  const int64_t row = mask.dim(3), head = mask.dim(2) * row, batch = mask.dim(1) * head;
  view.query_stride = mask.dim(2) == 1 ? 0 : row;
  view.head_stride = mask.dim(1) == 1 ? 0 : head;
  view.batch_stride = mask.dim(0) == 1 ? 0 : batch;
  return view;
}

Offsets offsets_of(const char* what, const std::optional<Offsets>& given, const Tensor& rows) {
  if (!given) return Offsets::uniform(1, rows.rows());
  if (given->tokens() != rows.rows()) {
    throw ShapeError(concat(kName, ": ", what, " ", rows.shape(), " has ", rows.rows(),
                            " rows, its offsets end at ", given->tokens()));
  }
  return *given;
}

int64_t width(const char* what, const Variable& x, int64_t heads) {
  if (x.value().rank() != 2 || heads < 1 || x.value().cols() % heads != 0 || x.value().cols() == 0) {
    throw ShapeError(concat(kName, ": ", what, " ", x.shape(), " is not [tokens, ", heads, " heads * d]"));
  }
  return x.value().cols() / heads;
}

}  // namespace

AttentionResult multihead_attention(const Variable& query, const Variable& key, const Variable& value,
                                    int64_t heads, const AttentionOptions& options) {
  const ProfileScope profile(kName);
  const int64_t d_k = width("query", query, heads), d_v = width("value", value, heads);
  if (width("key", key, heads) != d_k || key.value().rows() != value.value().rows()) {
    throw ShapeError(concat(kName, ": query ", query.shape(), ", key ", key.shape(), " and value ",
                            value.shape(), " with ", heads,
                            " heads: keys need the queries' width and the values' rows"));
  }
  const Offsets query_offsets = offsets_of("query", options.query_offsets, query.value());
  const Offsets key_offsets = offsets_of("key", options.key_offsets, key.value());
  if (query_offsets.sequences() != key_offsets.sequences()) {
    throw ShapeError(concat(kName, ": ", query_offsets.sequences(), " sequences of queries, ",
                            key_offsets.sequences(), " of keys"));
  }
  const Tensor bias = options.bias.defined() ? options.bias.value() : Tensor();
  AttentionShape shape{
      .sequences = query_offsets.sequences(),
      .query_offsets = query_offsets.data(),
      .key_offsets = key_offsets.data(),
      .heads = heads,
      .d_k = d_k,
      .d_v = d_v,
      .scale = options.scale.value_or(1.0f / std::sqrt(static_cast<float>(d_k))),
      .causal = options.causal,
      .keep = broadcast<kernels::KeepMask>("keep", options.keep, query_offsets, key_offsets, heads),
      .bias = broadcast<kernels::ScoreBias>("bias", bias, query_offsets, key_offsets, heads),
      .dropout = options.dropout};
  if (options.keep.defined()) shape.keep.data = options.keep.data<uint8_t>();
  if (bias.defined()) shape.bias.data = bias.data();

  const int64_t tokens = query.value().rows();
  const bool records = Tape::records({query, key, value, options.bias});
  Tensor output = Tensor::empty({tokens, heads * d_v});
  const Tensor log_sum_exp = records ? Tensor::empty({heads, tokens}) : Tensor();
  AttentionResult result;
  std::vector<int64_t> weight_offsets;
  Tensor weights;
  if (options.return_weights) {
    int64_t total = 0;
    for (int64_t s = 0; s < shape.sequences; ++s) {
      weight_offsets.push_back(total);
      total += heads * query_offsets.length(s) * key_offsets.length(s);
    }
    weights = Tensor::empty({total});
    for (int64_t s = 0; s < shape.sequences; ++s) {
      const int64_t queries = query_offsets.length(s), keys = key_offsets.length(s);
      result.weights.push_back(
          weights.slice_rows(weight_offsets[static_cast<size_t>(s)], heads * queries * keys)
              .reshape({heads, queries, keys}));
    }
  }
  const kernels::AttentionInput input{.query = query.value().data(),
                                      .key = key.value().data(),
                                      .value = value.value().data(),
                                      .query_stride = query.value().row_stride(),
                                      .key_stride = key.value().row_stride(),
                                      .value_stride = value.value().row_stride()};
  kernels::attention_forward(shape, input,
                             {.output = output.data(),
                              .output_stride = output.row_stride(),
                              .log_sum_exp = records ? log_sum_exp.data() : nullptr,
                              .weights = weights.defined() ? weights.data() : nullptr,
                              .weight_offsets = weight_offsets.data()});
  if (!records) {
    result.output = output;
    return result;
  }
  // `shape` and `input` point into these.
  auto keep_alive = std::tuple(query_offsets, key_offsets, options.keep, bias);
  result.output = Tape::result(
      kName, output,
      [=, keep_alive = std::move(keep_alive), bias_variable = options.bias](const Tensor& grad_output) {
        const auto slot = [](const Variable& x) {
          return x.requires_grad() ? x.gradient_slot()
                                   : GradientSlot{Tensor::empty(x.shape()), Accumulate::no};
        };
        const GradientSlot dq = slot(query), dk = slot(key), dv = slot(value);
        kernels::AttentionGradients gradients{.query = dq.tensor.data(),
                                              .key = dk.tensor.data(),
                                              .value = dv.tensor.data(),
                                              .query_stride = dq.tensor.row_stride(),
                                              .key_stride = dk.tensor.row_stride(),
                                              .value_stride = dv.tensor.row_stride(),
                                              .query_accumulate = dq.accumulate,
                                              .key_accumulate = dk.accumulate,
                                              .value_accumulate = dv.accumulate};
        if (bias_variable.requires_grad()) {
          const GradientSlot d_bias = bias_variable.gradient_slot();
          if (d_bias.accumulate == Accumulate::no) d_bias.tensor.fill_zero();
          gradients.bias = d_bias.tensor.data();
        }
        kernels::attention_backward(shape, input, output.data(), output.row_stride(), log_sum_exp.data(),
                                    grad_output.data(), grad_output.row_stride(), gradients);
      });
  return result;
}

namespace {

// [batch, length, heads, d] or [tokens, heads, d] as [tokens, heads * d].
Variable as_matrix(const char* what, const Variable& x) {
  const int rank = x.value().rank();
  if (rank != 3 && rank != 4) {
    throw ShapeError(
        concat(kName, ": ", what, " is [batch, length, heads, d] or [tokens, heads, d], found ", x.shape()));
  }
  return reshape(x, {x.shape().numel() / std::max<int64_t>(1, x.shape()[-1] * x.shape()[-2]),
                     x.shape()[-1] * x.shape()[-2]});
}

}  // namespace

AttentionResult scaled_dot_product_attention(const Variable& query, const Variable& key,
                                             const Variable& value, const AttentionOptions& options) {
  const Variable q = as_matrix("query", query), k = as_matrix("key", key), v = as_matrix("value", value);
  const int rank = query.value().rank();
  const int64_t heads = query.shape()[-2];
  if (key.value().rank() != rank || value.value().rank() != rank || key.shape()[-2] != heads ||
      value.shape()[-2] != heads || (rank == 4 && key.shape()[0] != query.shape()[0])) {
    throw ShapeError(concat(kName, ": query ", query.shape(), ", key ", key.shape(), " and value ",
                            value.shape(), " need equal ranks, batches and heads"));
  }
  AttentionOptions ragged = options;
  if (rank == 4) {
    ragged.query_offsets = Offsets::uniform(query.shape()[0], query.shape()[1]);
    ragged.key_offsets = Offsets::uniform(key.shape()[0], key.shape()[1]);
  }
  AttentionResult result = multihead_attention(q, k, v, heads, ragged);
  const int64_t d_v = value.shape()[-1];
  const Shape shape =
      rank == 4 ? Shape{query.shape()[0], query.shape()[1], heads, d_v} : Shape{query.shape()[0], heads, d_v};
  result.output = reshape(result.output, shape);
  return result;
}

}  // namespace qkv
