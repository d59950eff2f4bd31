#include "qkv/explain/cost.h"

#include <algorithm>

#include "qkv/base/error.h"

namespace qkv::explain {
namespace {

constexpr int64_t kMost = int64_t{1} << 60;  // keeps flops() and bytes within 64 bits

// An integer that throws on overflow.
class Count {
 public:
  Count(int64_t value) : value_(value) {}  // NOLINT: implicit, as counts and numbers are mixed

  friend Count operator+(Count a, Count b) {
    int64_t sum = 0;
    const bool overflow = __builtin_add_overflow(a.value_, b.value_, &sum);
    return within(overflow, sum);
  }
  friend Count operator*(Count a, Count b) {
    int64_t product = 0;
    const bool overflow = __builtin_mul_overflow(a.value_, b.value_, &product);
    return within(overflow, product);
  }
  int64_t value() const { return value_; }

 private:
  static Count within(bool overflow, int64_t value) {
    if (overflow || value > kMost) {
      throw UsageError("cost: expected sizes whose counts stay below 2^60, found larger ones");
    }
    return value;
  }

  int64_t value_;
};

Count size(const char* name, int64_t value) {
  if (value < 1) throw UsageError(concat(name, ": expected at least 1, found ", value));
  return value;
}

Cost cost_of(Count parameters, Count macs, Count pointwise, Count activations) {
  return {.parameters = parameters.value(),
          .macs = macs.value(),
          .pointwise = pointwise.value(),
          .activations = activations.value()};
}

int64_t operations(Activation activation) {
  switch (activation) {
    case Activation::identity:
      return 0;
    case Activation::relu:
      return 1;  // max(x, 0)
    case Activation::gelu_exact:
      return 5;  // x * 0.5 * (1 + erf(x * c))
    case Activation::gelu_tanh:
      return 9;  // 0.5 * x * (1 + tanh(c * (x + d * x * x * x)))
    case Activation::silu:
      return 4;  // x / (1 + exp(-x))
    case Activation::tanh:
      return 5;  // (exp(x) - exp(-x)) / (exp(x) + exp(-x))
    case Activation::relu_squared:
      return 2;  // max(x, 0)^2
    case Activation::quick_gelu:
      return 5;  // x / (1 + exp(-c * x))
  }
  return 1;
}

constexpr int64_t kSoftmaxOperations = 5;  // scale, subtract maximum, exp, sum, divide
constexpr int64_t kNormOperations = 7;     // mean, subtract, square and sum, scale, weight, bias
constexpr int64_t kRmsNormOperations = 4;  // square and sum, scale, weight

}  // namespace

Cost operator+(const Cost& a, const Cost& b) {
  Cost sum = cost_of(Count(a.parameters) + b.parameters, Count(a.macs) + b.macs,
                     Count(a.pointwise) + b.pointwise, Count(a.activations) + b.activations);
  // Bounded by the parameters, which are checked.
  sum.matrix_parameters = a.matrix_parameters + b.matrix_parameters;
  sum.matrix_rows = a.matrix_rows + b.matrix_rows;
  sum.inactive_parameters = a.inactive_parameters + b.inactive_parameters;
  return sum;
}

Cost operator*(int64_t count, const Cost& layer) {
  const Count n = count;
  Cost product = cost_of(n * layer.parameters, n * layer.macs, n * layer.pointwise, n * layer.activations);
  product.matrix_parameters = count * layer.matrix_parameters;
  product.matrix_rows = count * layer.matrix_rows;
  product.inactive_parameters = count * layer.inactive_parameters;
  return product;
}

int64_t attended_pairs(int64_t query_length, int64_t key_length, bool causal, int64_t window) {
  const Count queries = size("query_length", query_length), keys = size("key_length", key_length);
  if (window < 0 || (window > 0 && !causal)) {
    throw UsageError(concat("window: expected 0, or a number of keys with causal attention, found ", window,
                            causal ? "" : " without"));
  }
  if (!causal) return (queries * keys).value();
  // Query i may attend to i + 1 + keys - queries keys, if positive, but to at most the window.
  const int64_t rows = std::min(query_length, key_length);  // queries that may attend to a key
  const int64_t first = key_length - rows + 1, most = window > 0 ? std::min(window, key_length) : key_length;
  // An arithmetic series of `growing` terms from `first` to `most`, whose doubled sum is even; then `most`.
  const int64_t growing = std::max<int64_t>(0, most - first + 1);
  return (Count(growing) * (Count(first) + most)).value() / 2 + (Count(rows - growing) * most).value();
}

Cost linear_cost(const LinearCostOptions& options) {
  const Count inputs = size("inputs", options.inputs), outputs = size("outputs", options.outputs);
  const Count tokens = size("tokens", options.tokens), bias = options.bias;
  Cost cost = cost_of((inputs + bias) * outputs, tokens * inputs * outputs, tokens * outputs * bias,
                      tokens * outputs);
  cost.matrix_parameters = (inputs * outputs).value();
  cost.matrix_rows = outputs.value();
  return cost;
}

std::vector<PartCost> attention_parts(const AttentionCostOptions& options) {
  size("d_model", options.d_model);
  size("heads", options.heads);
  if ((options.d_k == 0 || options.d_v == 0) && options.d_model % options.heads != 0) {
    throw UsageError(concat("cost: expected heads that divide d_model ", options.d_model,
                            ", or d_k and d_v, found ", options.heads, " heads"));
  }
  const auto per_head = [&](int64_t given) { return given ? given : options.d_model / options.heads; };
  const int64_t key_heads = options.key_heads ? options.key_heads : options.heads;
  if (key_heads < 1 || options.heads % key_heads != 0) {
    throw UsageError(
        concat("key_heads: expected a divisor of the ", options.heads, " heads, found ", key_heads));
  }
  const Count heads = options.heads, batch = size("batch", options.batch);
  const Count d_k = size("d_k", per_head(options.d_k)), d_v = size("d_v", per_head(options.d_v));
  const int64_t key_length = options.key_length ? options.key_length : options.query_length;
  const Count pairs =
      batch * heads * attended_pairs(options.query_length, key_length, options.causal, options.window);
  const Count queries = batch * size("query_length", options.query_length);
  const Count keys = batch * size("key_length", key_length);

  const auto projection = [&](Count inputs, Count outputs, Count tokens) {
    return linear_cost({.inputs = inputs.value(),
                        .outputs = outputs.value(),
                        .tokens = tokens.value(),
                        .bias = options.bias});
  };
  // The softmax's log-sum-exp is kept, as are the heads' outputs.
  const int64_t operations = kSoftmaxOperations + (options.by_distance ? 1 : 0);
  std::vector<PartCost> parts{
      {"q_proj", projection(options.d_model, heads * d_k, queries)},
      {"k_proj", projection(options.d_model, Count(key_heads) * d_k, keys)},
      {"v_proj", projection(options.d_model, Count(key_heads) * d_v, keys)},
      {"scores", cost_of(0, pairs * d_k, pairs * operations, queries * heads)},
      {"weighted_sum", cost_of(0, pairs * d_v, 0, queries * heads * d_v)},
  };
  if (options.output_projection)
    parts.push_back({"out_proj", projection(heads * d_v, options.d_model, queries)});
  return parts;
}

Cost attention_cost(const AttentionCostOptions& options) { return total(attention_parts(options)); }

namespace {

Cost experts_cost(const FeedForwardCostOptions& options) {
  const Count tokens = size("tokens", options.tokens), width = size("d_model", options.d_model);
  const Count chosen = size("experts_per_token", options.experts_per_token), experts = options.experts;
  if (options.experts_per_token > options.experts) {
    throw UsageError(
        concat("experts_per_token: expected 1 to ", options.experts, ", found ", options.experts_per_token));
  }
  FeedForwardCostOptions one = options;
  one.experts = 0;
  one.tokens = (tokens * chosen).value();
  const Cost expert = feed_forward_cost(one);
  Cost sum = options.experts * Cost{.parameters = expert.parameters,
                                    .matrix_parameters = expert.matrix_parameters,
                                    .matrix_rows = expert.matrix_rows};
  sum.inactive_parameters = (options.experts - options.experts_per_token) * expert.parameters;
  // All tokens' pairs run through experts, which are alike.
  sum = sum + cost_of(0, expert.macs, expert.pointwise, expert.activations);
  // The router, which is no matrix of another dtype, and the softmax of its logits.
  sum = sum + cost_of(experts * width, tokens * experts * width, tokens * experts * kSoftmaxOperations,
                      2 * (tokens * experts));
  // The rows of each pair, weighted and added; kept are those before and after the expert, and the sums.
  const Count pairs = tokens * chosen * width;
  return sum + cost_of(0, 0, 2 * pairs, 2 * pairs + tokens * width);
}

}  // namespace

Cost feed_forward_cost(const FeedForwardCostOptions& options) {
  if (options.experts != 0) return experts_cost(options);
  const Cost wide = linear_cost(
      {.inputs = options.d_model, .outputs = options.d_ff, .tokens = options.tokens, .bias = options.bias});
  const Cost narrow = linear_cost(
      {.inputs = options.d_ff, .outputs = options.d_model, .tokens = options.tokens, .bias = options.bias});
  const Count inner = Count(options.tokens) * options.d_ff;
  const Cost activated = cost_of(0, 0, inner * operations(options.activation), 0);
  if (!options.gated) return wide + activated + narrow;
  // The gate is a second projection of the same width; the gated product is kept too.
  return 2 * wide + activated + cost_of(0, 0, inner, inner) + narrow;
}

Cost norm_cost(int64_t d_model, int64_t tokens, nn::NormKind kind) {
  const Count features = size("d_model", d_model), rows = size("tokens", tokens);
  if (kind == nn::NormKind::rms)
    // Keeps the root.
    return cost_of(features, 0, rows * features * kRmsNormOperations, rows * (features + 1));
  return cost_of(2 * features, 0, rows * features * kNormOperations,
                 rows * (features + 2));  // keeps mean and deviation
}

Cost residual_cost(int64_t d_model, int64_t tokens, nn::NormKind kind) {
  return norm_cost(d_model, tokens, kind) + cost_of(0, 0, Count(tokens) * d_model, Count(tokens) * d_model);
}

Cost total(const std::vector<PartCost>& parts) {
  Cost sum;
  for (const PartCost& part : parts) sum = sum + part.cost;
  return sum;
}

}  // namespace qkv::explain
