#include "qkv/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "qkv/ops/attention_rule.h"
#include "qkv/ops/convert.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/require.h"

namespace qkv {
namespace {

constexpr const char* kName = "attention";

// A mask or bias is [batch | 1, heads | 1, queries | 1, keys].
void require_broadcast(const char* what, const Tensor& mask, DType dtype, const Offsets& query,
                       const Offsets& key, int64_t heads) {
  if (!mask.defined()) return;
  if (mask.dtype() != dtype) {
    throw ShapeError(concat(kName, ": ", what, ": expected ", name_of(dtype), ", found ",
                            name_of(mask.dtype()), " ", mask.shape()));
  }
  const auto fits = [](int64_t extent, int64_t wanted) { return extent == 1 || extent >= wanted; };
  if (mask.rank() != 4 || !mask.contiguous() || (mask.dim(0) != 1 && mask.dim(0) != query.sequences()) ||
      (mask.dim(1) != 1 && mask.dim(1) != heads) || !fits(mask.dim(2), query.max_length()) ||
      mask.dim(3) < key.max_length()) {
    throw ShapeError(concat(kName, ": ", what, " ", mask.shape(), " does not fit [", query.sequences(),
                            " or 1, ", heads, " or 1, ", query.max_length(), " or 1, ", key.max_length(),
                            "]"));
  }
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

void require_of_heads(const char* what, const Tensor& values, int64_t heads) {
  if (!values.defined()) return;
  require_f32(kName, values);
  if (values.shape() != Shape{heads})
    throw ShapeError(concat(kName, ": ", what, " ", values.shape(), " is not [", heads, "]"));
}

void require_relative_bias(const Variable& bias, int64_t heads, int64_t longest) {
  if (!bias.defined()) return;
  const Tensor& values = bias.value();
  require_f32(kName, values);
  if (values.rank() != 2 || !values.contiguous() || values.dim(0) != heads || values.dim(1) % 2 == 0 ||
      values.dim(1) < 2 * longest - 1) {
    throw ShapeError(concat(kName, ": relative_bias ", values.shape(), " is not [", heads,
                            ", 2 n - 1] with n of at least ", longest, " positions"));
  }
}

// The dtype of the inputs, which must be one.
DType dtype_of_inputs(const Variable& query, const Variable& key, const Variable& value) {
  for (const Variable* x : {&query, &key, &value}) {
    if (!x->defined() || !x->value().defined())
      throw UsageError(concat(kName, ": expected query, key and value, found an undefined one"));
  }
  const DType dtype = query.value().dtype();
  if ((dtype != DType::f32 && dtype != DType::bf16) || key.value().dtype() != dtype ||
      value.value().dtype() != dtype) {
    throw ShapeError(concat(kName, ": query ", name_of(dtype), ", key ", name_of(key.value().dtype()),
                            " and value ", name_of(value.value().dtype()),
                            ": expected f32 or bf16, and all alike"));
  }
  return dtype;
}

// Output buffers for the weights of each row: AttentionCapture.
struct CapturedWeights {
  std::vector<int64_t> offsets = {};
  Tensor weights = {}, scores = {};
};

// Buffers on `device` for the additional outputs of the kernel.
CapturedWeights captured(const AttentionOptions& options, int64_t heads, const Offsets& query_offsets,
                         const Offsets& key_offsets, Device device, AttentionResult& result) {
  const int64_t tokens = query_offsets.tokens();
  if (options.return_top < 0) {
    throw UsageError(concat(kName, ": return_top must not be negative, found ", options.return_top));
  }
  if (options.return_top > 0) {
    result.top_weights = Tensor::empty({heads, tokens, options.return_top}, DType::f32, device);
    result.top_keys = Tensor::empty({heads, tokens, options.return_top}, DType::i32, device);
  }
  if (!options.return_weights && !options.return_scores) return {};

  std::vector<int64_t> offsets(static_cast<size_t>(heads * tokens));
  std::vector<int64_t> begins;  // of each sequence's weights
  int64_t total = 0;
  for (int64_t s = 0; s < query_offsets.sequences(); ++s) {
    begins.push_back(total);
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t row = query_offsets.begin(s); row < query_offsets.end(s); ++row) {
        offsets[static_cast<size_t>(h * tokens + row)] = total;
        total += key_offsets.length(s);
      }
    }
  }
  const auto views = [&](std::vector<Tensor>& of_sequences) {
    Tensor all = Tensor::empty({total}, DType::f32, device);
    for (int64_t s = 0; s < query_offsets.sequences(); ++s) {
      const Shape shape{heads, query_offsets.length(s), key_offsets.length(s)};
      of_sequences.push_back(all.slice_rows(begins[static_cast<size_t>(s)], shape.numel()).reshape(shape));
    }
    return all;
  };
  CapturedWeights capture{.offsets = offsets};
  if (options.return_weights) capture.weights = views(result.weights);
  if (options.return_scores) capture.scores = views(result.scores);
  return capture;
}

Tensor value_of(const Variable& x) { return x.defined() ? x.value() : Tensor(); }

}  // namespace

kernels::AttentionRule attention_rule(const AttentionOptions& options, int64_t heads, int64_t d_k,
                                      Device device) {
  return {.heads = heads,
          .key_heads = options.key_heads == 0 ? heads : options.key_heads,
          .scale = options.scale.value_or(1.0f / std::sqrt(static_cast<float>(d_k))),
          .softcap = options.softcap,
          .causal = options.causal,
          .alignment = options.alignment,
          .window = options.window,
          .fixed_order = options.fixed_order,
          .operands = options.operands,
          .keep = from_host(options.keep, device),
          .bias = value_of(options.bias),
          .alibi_slopes = from_host(options.alibi_slopes, device),
          .relative_bias = value_of(options.relative_bias),
          .sinks = value_of(options.sinks),
          .dropout = options.dropout};
}

AttentionResult multihead_attention(const Variable& query, const Variable& key, const Variable& value,
                                    int64_t heads, const AttentionOptions& options) {
  const ProfileScope profile(kName);
  const DType dtype = dtype_of_inputs(query, key, value);
  const Device device = query.value().device();
  if (dtype == DType::bf16 && device == Device::cpu) {
    AttentionResult result = multihead_attention(to_f32(query), to_f32(key), to_f32(value), heads, options);
    result.output = to_bf16(result.output);
    return result;
  }
  const int64_t key_heads = options.key_heads == 0 ? heads : options.key_heads;
  if (key_heads < 1 || heads % key_heads != 0) {
    throw ShapeError(concat(kName, ": ", key_heads, " heads of keys do not divide ", heads, " of queries"));
  }
  const int64_t d_k = width("query", query, heads), d_v = width("value", value, key_heads);
  if (width("key", key, key_heads) != d_k || key.value().rows() != value.value().rows()) {
    throw ShapeError(concat(kName, ": query ", query.shape(), ", key ", key.shape(), " and value ",
                            value.shape(), " with ", heads, " and ", key_heads,
                            " heads: keys need the queries' width and the values' rows"));
  }
  if (!(options.softcap >= 0) || std::isinf(options.softcap)) {
    throw UsageError(
        concat(kName, ": softcap: expected 0 (none) or a positive number, found ", options.softcap));
  }
  require_of_heads("alibi_slopes", options.alibi_slopes, heads);
  if (options.sinks.defined()) require_of_heads("sinks", options.sinks.value(), heads);
  const Offsets query_offsets = offsets_of("query", options.query_offsets, query.value());
  const Offsets key_offsets = offsets_of("key", options.key_offsets, key.value());
  if (query_offsets.sequences() != key_offsets.sequences()) {
    throw ShapeError(concat(kName, ": ", query_offsets.sequences(), " sequences of queries, ",
                            key_offsets.sequences(), " of keys"));
  }
  if (options.window < 0)
    throw UsageError(concat(kName, ": window: expected 0 (off) or more, found ", options.window));
  const int64_t longest = std::max(query_offsets.max_length(), key_offsets.max_length());
  require_relative_bias(options.relative_bias, heads, longest);
  require_dropout(kName, options.dropout);
  require_broadcast("keep", options.keep, DType::u8, query_offsets, key_offsets, heads);
  if (options.bias.defined())
    require_broadcast("bias", options.bias.value(), DType::f32, query_offsets, key_offsets, heads);
  kernels::AttentionTensors arguments{.query = query.value(),
                                      .key = key.value(),
                                      .value = value.value(),
                                      .query_offsets = query_offsets,
                                      .key_offsets = key_offsets,
                                      .rule = attention_rule(options, heads, d_k, device)};
  arguments.rule.window = std::min(options.window, std::max<int64_t>(longest, 1));

  const int64_t tokens = query.value().rows();
  const bool records = Tape::records({query, key, value, options.bias, options.relative_bias, options.sinks});
  Tensor output = Tensor::empty({tokens, heads * d_v}, dtype, device);
  Tensor log_sum_exp = records ? Tensor::empty({heads, tokens}, DType::f32, device) : Tensor();
  AttentionResult result;
  const CapturedWeights capture = captured(options, heads, query_offsets, key_offsets, device, result);
  kernels::attention_forward(arguments, {.output = output,
                                         .log_sum_exp = log_sum_exp,
                                         .weight_offsets = capture.offsets,
                                         .weights = capture.weights,
                                         .scores = capture.scores,
                                         .top_weights = result.top_weights,
                                         .top_keys = result.top_keys});
  if (!records) {
    result.output = output;
    return result;
  }
  result.output =
      Tape::record(kName, output, {query, key, value, options.bias, options.relative_bias, options.sinks},
                   [=, bias = options.bias, relative_bias = options.relative_bias,
                    sinks = options.sinks](const Tensor& dy) {
                     const auto added_to = [](const Variable& x) {
                       if (!x.requires_grad()) return Tensor();
                       GradientSlot gradient = x.gradient_slot();
                       if (gradient.accumulate == Accumulate::no) gradient.tensor.fill_zero();
                       return gradient.tensor;
                     };
                     kernels::attention_backward(arguments, output, log_sum_exp, dy,
                                                 {.query = gradient_slot_of(query),
                                                  .key = gradient_slot_of(key),
                                                  .value = gradient_slot_of(value),
                                                  .bias = added_to(bias),
                                                  .relative_bias = added_to(relative_bias),
                                                  .sinks = added_to(sinks)});
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
  if (key.value().rank() != rank || value.value().rank() != rank || key.shape()[-2] != value.shape()[-2] ||
      (rank == 4 && (key.shape()[0] != query.shape()[0] || value.shape()[0] != query.shape()[0]))) {
    throw ShapeError(concat(kName, ": query ", query.shape(), ", key ", key.shape(), " and value ",
                            value.shape(), " need equal ranks and batches, keys and values equal heads"));
  }
  if (options.key_heads != 0 && options.key_heads != key.shape()[-2]) {
    throw UsageError(concat(kName, ": key_heads ", options.key_heads, " contradict key ", key.shape(),
                            ", which has ", key.shape()[-2], " heads"));
  }
  if (rank == 4 && (options.query_offsets || options.key_offsets)) {
    throw UsageError(
        concat(kName, ": query_offsets and key_offsets are for ragged inputs [tokens, heads, d], found ",
               "the dense query ", query.shape()));
  }
  AttentionOptions ragged = options;
  ragged.key_heads = key.shape()[-2];
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
