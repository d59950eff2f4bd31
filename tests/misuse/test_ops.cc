// Each op with each of its arguments undefined, moved-from, of other dtypes, ranks and extents, as columns of
// a wider matrix, and in inaccessible memory; with and without a tape.

#include <gtest/gtest.h>

#include <limits>

#include "qkv/ops/activation.h"
#include "qkv/ops/attention.h"
#include "qkv/ops/convert.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/gated.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/losses.h"
#include "qkv/ops/general/matmul.h"
#include "qkv/ops/general/pooling.h"
#include "qkv/ops/general/prepend.h"
#include "qkv/ops/general/reduce.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/general/scale.h"
#include "qkv/ops/general/slice.h"
#include "qkv/ops/general/softmax.h"
#include "qkv/ops/general/weighted_sum.h"
#include "qkv/ops/linear_activate.h"
#include "qkv/ops/linear_cross_entropy.h"
#include "qkv/ops/linear_of.h"
#include "qkv/ops/norm.h"
#include "qkv/ops/quantize.h"
#include "qkv/ops/recompute.h"
#include "qkv/ops/relative_position_bias.h"
#include "qkv/ops/rotary.h"
#include "tests/support/misuse.h"
#include "tests/support/random.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

struct Argument {
  Tensor good;
  bool optional = false;             // an undefined one is right too
  bool any_shape = false;            // every shape is right, if it fits the other arguments
  std::vector<int> free = {};        // axes that may have any extent
  std::vector<DType> also_fit = {};  // dtypes that are right too
  bool ranks_fit = false;            // axes may come before these
};

struct OpCase {
  std::string name;  // what messages begin with
  std::vector<Argument> arguments;
  std::function<Variable(const std::vector<Tensor>&)> call;
};

Tensor ids(const std::vector<int32_t>& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

// [3, 4] and so on; all extents differ and exceed 1, so that nothing is broadcast.
Tensor numbers(const Shape& shape) { return random_tensor(shape, 7); }

Weight int8_weight(const Tensor& values, const Tensor& scales) {
  return Weight(QuantizedTensor{values, scales});
}

std::vector<OpCase> unary_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](const char* name, Argument x, const std::function<Variable(const Tensor&)>& call) {
    cases.push_back({name, {std::move(x)}, [call](const std::vector<Tensor>& in) { return call(in[0]); }});
  };
  const Tensor x = numbers({3, 4});
  const Argument any{.good = x, .any_shape = true};
  add("activate", {.good = x, .free = {0, 1}},
      [](const Tensor& in) { return activate(in, Activation::silu); });
  add("softmax", any, [](const Tensor& in) { return softmax(in); });
  add("log_softmax", any, [](const Tensor& in) { return log_softmax(in); });
  add("scaled", any, [](const Tensor& in) { return scaled(in, 2.5f); });
  add("sum", any, [](const Tensor& in) { return sum(in); });
  add("mean", any, [](const Tensor& in) { return mean(in); });
  add("sum", {.good = x, .any_shape = true}, [](const Tensor& in) { return sum(in, -1); });
  add("transpose", any, [](const Tensor& in) { return transpose(in); });
  add("slice", any, [](const Tensor& in) { return slice(in, 1, 1, 2); });
  add("add", any, [](const Tensor& in) { return in + 1.0f; });
  add("subtract", any, [](const Tensor& in) { return 1.0f - Variable(in); });
  add("multiply", any, [](const Tensor& in) { return -Variable(in); });
  add("divide", any, [](const Tensor& in) { return 2.0f / Variable(in); });
  add("to_bf16", {.good = x, .any_shape = true, .also_fit = {DType::bf16}},
      [](const Tensor& in) { return to_bf16(in); });
  add("to_f32", {.good = x, .any_shape = true, .also_fit = {DType::bf16}},
      [](const Tensor& in) { return to_f32(in); });
  add("to_dtype", {.good = x, .any_shape = true, .also_fit = {DType::bf16}},
      [](const Tensor& in) { return to_dtype({in}, DType::bf16).values; });
  const Offsets offsets({0, 1, 3});
  add("segment_mean", {.good = x, .free = {1}},
      [offsets](const Tensor& in) { return segment_mean(in, offsets); });
  add("segment_max", {.good = x, .free = {1}},
      [offsets](const Tensor& in) { return segment_max(in, offsets); });
  return cases;
}

std::vector<OpCase> binary_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](const char* name, Argument x, Argument y,
                       const std::function<Variable(const Tensor&, const Tensor&)>& call) {
    cases.push_back({name, {std::move(x), std::move(y)}, [call](const std::vector<Tensor>& in) {
                       return call(in[0], in[1]);
                     }});
  };
  const Tensor x = numbers({3, 4}), y = random_tensor({3, 4}, 8);
  const Argument one{.good = x}, other{.good = y};
  const Argument repeats{.good = x, .any_shape = true}, repeated{.good = y, .any_shape = true};
  add("add", repeats, repeated, [](const Tensor& a, const Tensor& b) { return Variable(a) + b; });
  add("subtract", repeats, repeated, [](const Tensor& a, const Tensor& b) { return Variable(a) - b; });
  add("multiply", repeats, repeated, [](const Tensor& a, const Tensor& b) { return Variable(a) * b; });
  add("divide", repeats, repeated, [](const Tensor& a, const Tensor& b) { return Variable(a) / b; });
  add("mse", one, other, [](const Tensor& a, const Tensor& b) { return mse(a, b, Reduction::none); });
  add("weighted_sum", one, other, [](const Tensor& a, const Tensor& b) { return weighted_sum(a, b); });
  add("residual", one, other, [](const Tensor& a, const Tensor& b) { return residual(a, b); });
  add("gated", one, other, [](const Tensor& a, const Tensor& b) { return gated(a, b, Activation::silu); });
  add("matmul", {.good = x, .free = {0}, .ranks_fit = true}, {.good = numbers({4, 5}), .free = {1}},
      [](const Tensor& a, const Tensor& b) { return matmul(a, b); });
  add("concatenate", {.good = x, .free = {0}}, {.good = y, .free = {0}},
      [](const Tensor& a, const Tensor& b) {
        return concatenate({a, b}, 0);
      });
  add("gather", {.good = x, .any_shape = true}, {.good = ids({2, 0, 2}), .free = {0}},
      [](const Tensor& a, const Tensor& rows) { return gather(a, rows); });
  add("prepend", {.good = numbers({1, 4}), .any_shape = true}, {.good = numbers({6, 4}), .free = {0}},
      [](const Tensor& row, const Tensor& rows) { return prepend(row, rows, 2); });
  add("rms_norm", {.good = x, .free = {0}}, {.good = numbers({4})},
      [](const Tensor& a, const Tensor& weight) { return rms_norm(a, weight, 1e-5f); });
  add("relative_position_bias", {.good = x, .free = {0, 1}}, {.good = ids({0, 1, 0, 1}), .free = {0}},
      [](const Tensor& table, const Tensor& buckets) { return relative_position_bias(table, buckets); });
  return cases;
}

std::vector<OpCase> wider_cases() {
  const Tensor x = numbers({3, 4}), weight = random_tensor({5, 4}, 9), bias = random_tensor({5}, 10);
  const Argument rows{.good = x, .free = {0}};
  // A zero weight of another dtype is valid.
  const Argument matrix{.good = weight, .free = {0}, .also_fit = {DType::bf16}};
  const Tensor features = random_tensor({4}, 11), labels = ids({4, 0, 2});
  std::vector<OpCase> cases;
  cases.push_back(
      {"linear", {rows, matrix, {.good = bias, .optional = true, .any_shape = true}}, [](const auto& in) {
         return linear(in[0], LinearWeights({in[1]}, {in[2].defined() ? Variable(in[2]) : Variable()}));
       }});
  cases.push_back(
      {"linear_activate",
       {rows, {.good = weight, .free = {0}, .also_fit = {DType::bf16}}},
       [](const auto& in) { return linear_activate(in[0], LinearWeights({in[1]}), Activation::relu); }});
  cases.push_back(
      {"linear", {rows, {.good = weight, .free = {0}, .also_fit = {DType::bf16}}}, [](const auto& in) {
         return linear_of([x = in[0]] { return Variable(x); }, LinearWeights({in[1]}));
       }});
  cases.push_back({"cross_entropy", {{.good = x}, matrix, {.good = labels}}, [](const auto& in) {
                     return linear_cross_entropy(in[0], LinearWeights({in[1]}), in[2], {}).loss;
                   }});
  cases.push_back({"cross_entropy",
                   {{.good = numbers({3, 5})}, {.good = labels}, {.good = bias, .optional = true}},
                   [](const auto& in) { return cross_entropy(in[0], in[1], {.class_weights = in[2]}); }});
  cases.push_back({"layer_norm", {rows, {.good = features}, {.good = features}}, [](const auto& in) {
                     return layer_norm(in[0], in[1], in[2], 1e-5f);
                   }});
  cases.push_back(
      {"residual_layer_norm",
       {{.good = x}, {.good = x}, {.good = features}, {.good = features}},
       [](const auto& in) { return residual_layer_norm(in[0], in[1], {}, in[2], in[3], 1e-5f); }});
  cases.push_back({"residual_rms_norm", {{.good = x}, {.good = x}, {.good = features}}, [](const auto& in) {
                     return residual_rms_norm(in[0], in[1], {}, in[2], 1e-5f);
                   }});
  cases.push_back({"embedding",
                   {{.good = weight, .free = {0}, .also_fit = {DType::bf16}},
                    {.good = labels, .free = {0}},
                    {.good = numbers({6, 4}), .free = {0}},
                    {.good = ids({1, 2, 3})}},
                   [](const auto& in) { return embedding(in[0], in[1], in[2], {.position = in[3]}); }});
  cases.push_back({"rotary",
                   {{.good = numbers({3, 12}), .free = {0}},
                    {.good = numbers({8, 2})},
                    {.good = numbers({8, 2})},
                    {.good = ids({0, 7, 3})}},
                   [](const auto& in) {
                     return rotary(in[0], 3, {in[1], in[2]}, in[3]);
                   }});
  // Two heads of 4 and 6 features, one of keys.
  const Argument optional_mask{.good = Tensor::full({1, 2, 3, 3}, 0.5f), .optional = true, .free = {1, 2, 3}};
  cases.push_back({"attention",
                   {{.good = numbers({3, 8}), .free = {0}},
                    {.good = numbers({3, 4})},
                    {.good = numbers({3, 6}), .free = {1}},
                    optional_mask,
                    {.good = numbers({2}), .optional = true},
                    {.good = numbers({2, 5}), .optional = true, .free = {1}}},
                   [](const auto& in) {
                     return multihead_attention(
                                in[0], in[1], in[2], 2,
                                {.bias = in[3].defined() ? Variable(in[3]) : Variable(),
                                 .alibi_slopes = in[4],
                                 .relative_bias = in[5].defined() ? Variable(in[5]) : Variable(),
                                 .key_heads = 1})
                         .output;
                   }});
  cases.push_back({"attention",
                   {{.good = numbers({2, 3, 2, 4}), .free = {1, 2}},
                    {.good = numbers({2, 3, 2, 4}), .free = {}},
                    {.good = numbers({2, 3, 2, 4}), .free = {3}},
                    {.good = Tensor::zeros({2, 2, 3, 3}, DType::u8), .optional = true, .free = {0, 1, 2, 3}}},
                   [](const auto& in) {
                     return scaled_dot_product_attention(in[0], in[1], in[2], {.keep = in[3]}).output;
                   }});
  return cases;
}

void check(const OpCase& op) {
  std::vector<Tensor> good;
  for (const Argument& argument : op.arguments) good.push_back(argument.good);
  const Tensor expected = op.call(good).value();
  for (size_t i = 0; i < good.size(); ++i) {
    const Argument& argument = op.arguments[i];
    const auto with = [&](const Tensor& other) {
      return [&op, &good, i, other] {
        std::vector<Tensor> inputs = good;
        inputs[i] = other;
        return op.call(inputs).value();
      };
    };
    const std::string which = concat("argument ", i, ": ");
    for (const Unfit& unfit : unfit_elements(argument.good, argument.also_fit)) {
      if (argument.optional && !unfit.tensor.defined()) continue;
      expect_refusal(op.name, which + unfit.what, with(unfit.tensor));
    }
    if (argument.good.rank() > 1)
      expect_refusal_or(expected, op.name + ", " + which + "columns", with(strided(argument.good)));
    if (argument.any_shape) continue;
    for (const Unfit& unfit : unfit_shapes(argument.good, argument.free)) {
      if (argument.ranks_fit && unfit.what == "an axis more") continue;
      expect_refusal(op.name, which + unfit.what, with(unfit.tensor));
    }
  }
}

TEST(MisusedOps, OfOneArgument) {
  for (const OpCase& op : unary_cases()) check(op);
}

TEST(MisusedOps, OfTwoArguments) {
  for (const OpCase& op : binary_cases()) check(op);
}

TEST(MisusedOps, OfMoreArguments) {
  for (const OpCase& op : wider_cases()) check(op);
}

TEST(MisusedOps, OnATape) {
  for (const auto& cases : {unary_cases(), binary_cases(), wider_cases()}) {
    for (const OpCase& op : cases) {
      const Tape tape;
      check(op);
    }
  }
}

TEST(MisusedOps, UndefinedVariables) {
  const Variable none, x = numbers({3, 4});
  const Variable empty = Variable::parameter();
  for (const Variable& bad : {none, empty}) {
    const auto refuse = [&](const char* name, const std::function<Variable()>& call) {
      expect_refusal(name, bad.defined() ? "a parameter without a value" : "an undefined variable", call);
    };
    refuse("add", [&] { return bad + x; });
    refuse("add", [&] { return x + bad; });
    refuse("multiply", [&] { return bad * 2; });
    refuse("divide", [&] { return 2 / bad; });
    refuse("matmul", [&] { return matmul(x, bad); });
    refuse("softmax", [&] { return softmax(bad); });
    refuse("sum", [&] { return sum(bad, 0); });
    refuse("activate", [&] { return activate(bad, Activation::relu); });
    refuse("gated", [&] { return gated(x, bad, Activation::relu); });
    refuse("residual", [&] { return residual(x, bad); });
    refuse("layer_norm", [&] { return layer_norm(x, bad, bad, 1e-5f); });
    refuse("linear", [&] { return linear(bad, LinearWeights({numbers({5, 4})})); });
    refuse("linear", [&] { return linear(x, LinearWeights({Weight(bad)})); });
    refuse("embedding", [&] { return embedding(Weight(bad), ids({0}), {}, {}); });
    refuse("attention", [&] { return multihead_attention(x, bad, x, 2, {}).output; });
    refuse("attention", [&] { return multihead_attention(x, x, bad, 2, {}).output; });
    refuse("scaled", [&] { return scaled(bad, 2); });
    refuse("weighted_sum", [&] { return weighted_sum(bad, {}); });
    refuse("", [&] { return reshape(bad, {0}); });
    refuse("", [&] { return bad.columns(0, 0); });
  }
}

TEST(MisusedOps, NumbersOutOfRange) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Variable x = numbers({3, 4});
  for (const float rate : {-0.5f, 1.0f, 1.5f, kNan}) {
    expect_refusal("activate", "rate", [&] { activate(x, Activation::relu, {.rate = rate}); });
    expect_refusal("residual", "rate", [&] { residual(x, x, {.rate = rate}); });
    expect_refusal("gated", "rate", [&] { gated(x, x, Activation::relu, {.rate = rate}); });
    expect_refusal("attention", "rate",
                   [&] { multihead_attention(x, x, x, 2, {.dropout = {.rate = rate}}); });
  }
  const LinearWeights weights({numbers({5, 4})});
  const Tensor labels = ids({0, 1, 4});
  for (const float smoothing : {-0.1f, 2.0f, kNan}) {
    expect_refusal("cross_entropy", "smoothing",
                   [&] { linear_cross_entropy(x, weights, labels, {.label_smoothing = smoothing}); });
    expect_refusal("cross_entropy", "smoothing", [&] {
      cross_entropy(numbers({3, 5}), labels, {.label_smoothing = smoothing});
    });
  }
  for (const int64_t rows : {int64_t{0}, int64_t{-1}, -kHuge}) {
    expect_refusal("cross_entropy", "chunk_rows",
                   [&] { linear_cross_entropy(x, weights, labels, {.chunk_rows = rows}); });
  }
  for (const int32_t id : {-1, 5, INT32_MAX, INT32_MIN}) {
    expect_refusal("cross_entropy", "label", [&] { cross_entropy(numbers({1, 5}), ids({id})); });
    expect_refusal("cross_entropy", "label", [&] {
      linear_cross_entropy(numbers({1, 4}), weights, ids({id}), {});
    });
    expect_refusal("embedding", "id", [&] { embedding(numbers({5, 4}), ids({id}), {}, {}); });
    expect_refusal("embedding", "position", [&] {
      embedding(numbers({5, 4}), ids({0}), numbers({5, 4}), {.position = ids({id})});
    });
    expect_refusal("gather", "row", [&] { gather(numbers({5, 4}), ids({id})); });
    expect_refusal("rotary", "position", [&] {
      rotary(numbers({1, 4}), 1, {numbers({5, 2}), numbers({5, 2})}, ids({id}));
    });
    expect_refusal("relative_position_bias", "bucket", [&] {
      relative_position_bias(numbers({5, 4}), ids({id}));
    });
  }
  for (const int64_t number : {int64_t{-1}, kHuge, -kHuge}) {
    expect_refusal("slice", "begin", [&] { slice(x, 0, number, 1); });
    expect_refusal("slice", "count", [&] { slice(x, 0, 1, number); });
    expect_refusal("columns", "begin", [&] { return x.columns(number, 1); });
    expect_refusal("columns", "count", [&] { return x.columns(1, number); });
    expect_refusal("attention", "heads", [&] { multihead_attention(x, x, x, number, {}); });
    expect_refusal("attention", "key_heads", [&] { multihead_attention(x, x, x, 2, {.key_heads = number}); });
    expect_refusal("attention", "weight_heads", [&] {
      multihead_attention(x, x, x, 2, {.return_weights = true, .weight_heads = {number}});
    });
    expect_refusal("attention", "weight_queries", [&] {
      multihead_attention(x, x, x, 2, {.return_weights = true, .weight_queries = {number}});
    });
    expect_refusal("rotary", "heads", [&] {
      rotary(numbers({3, 4}), number, {numbers({5, 2}), numbers({5, 2})}, ids({0, 1, 2}));
    });
    expect_refusal("prepend", "sequences", [&] { prepend(numbers({1, 4}), x, number); });
  }
  expect_refusal("attention", "window", [&] { multihead_attention(x, x, x, 2, {.window = 1}); });
  expect_refusal("attention", "window",
                 [&] { multihead_attention(x, x, x, 2, {.causal = true, .window = -1}); });
  expect_refusal("", "return_top", [&] { multihead_attention(x, x, x, 2, {.return_top = kHuge}); });
  expect_refusal("attention", "return_top", [&] { multihead_attention(x, x, x, 2, {.return_top = -1}); });
  for (const int axis : {-3, 2, INT_MAX, INT_MIN}) {
    expect_refusal("axis", "slice", [&] { slice(x, axis, 0, 1); });
    expect_refusal("axis", "sum", [&] { sum(x, axis); });
    expect_refusal("axis", "mean", [&] { mean(x, axis); });
    expect_refusal("axis", "concatenate", [&] { concatenate({x, x}, axis); });
  }
  expect_refusal("concatenate", "no parts", [&] { concatenate({}, 0); });
  expect_refusal("mean", "of nothing", [&] { mean(Variable(Tensor::zeros({0, 4}))); });
  // A window of all keys, and more top weights than keys.
  const Tensor all = multihead_attention(x, x, x, 2, {.causal = true}).output.value();
  expect_refusal_or(all, "a window beyond all keys", [&] {
    return multihead_attention(x, x, x, 2, {.causal = true, .window = kHuge}).output.value();
  });
  expect_refusal_or(ids({0, -1, -1, 0, 1, -1}).reshape({2, 1, 3}).slice(0, 0, 1), "top keys", [&] {
    return multihead_attention(numbers({1, 4}), numbers({1, 4}), numbers({1, 4}), 1, {.return_top = 3})
        .top_keys;
  });
}

TEST(MisusedOps, NothingInNothingOut) {
  const auto empty = [](const char* what, const Shape& shape, const std::function<Variable()>& call) {
    expect_refusal_or(Tensor::zeros(shape), what, [&] { return call().value(); });
  };
  const Tensor none = Tensor::zeros({0, 4});
  empty("linear", {0, 5}, [&] { return linear(none, LinearWeights({numbers({5, 4})})); });
  for (const WeightLayout layout :
       {WeightLayout::in_place, WeightLayout::packed, WeightLayout::packed_bf16}) {
    empty("linear of width 0", {3, 5}, [&] {
      return linear(Tensor::zeros({3, 0}), LinearWeights({Tensor::zeros({5, 0})}), layout);
    });
  }
  empty("matmul of inner width 0", {3, 5}, [&] {
    return matmul(Tensor::zeros({3, 0}), Tensor::zeros({0, 5}));
  });
  empty("matmul of no rows", {0, 5}, [&] { return matmul(none, numbers({4, 5})); });
  empty("activate", {0, 4}, [&] { return activate(none, Activation::gelu_exact); });
  empty("softmax", {0, 4}, [&] { return softmax(none); });
  empty("softmax of no columns", {3, 0}, [&] { return softmax(Tensor::zeros({3, 0})); });
  empty("layer_norm", {0, 4}, [&] { return layer_norm(none, numbers({4}), numbers({4}), 1e-5f); });
  empty("add", {0, 4}, [&] { return Variable(none) + Variable(none); });
  empty("sum", {1}, [&] { return sum(Variable(none)); });
  empty("sum of an empty axis", {4}, [&] { return sum(Variable(none), 0); });
  empty("segment_mean", {2, 4}, [&] { return segment_mean(none, Offsets({0, 0, 0})); });
  empty("segment_max", {2, 4}, [&] { return segment_max(none, Offsets({0, 0, 0})); });
  empty("embedding", {0, 4}, [&] { return embedding(numbers({5, 4}), ids({}), {}, {}); });
  empty("gather", {0, 4}, [&] { return gather(numbers({5, 4}), ids({})); });
  empty("attention", {0, 4}, [&] { return multihead_attention(none, none, none, 2, {}).output; });
  empty("attention without keys", {3, 4}, [&] {
    return multihead_attention(numbers({3, 4}), none, none, 2, {}).output;
  });
  empty("prepend", {2, 4}, [&] { return prepend(Tensor::zeros({1, 4}), none, 2); });
  empty("cross_entropy", {1}, [&] {
    return linear_cross_entropy(none, LinearWeights({numbers({5, 4})}), ids({}), {}).loss;
  });
  empty("cross_entropy of no items", {1}, [&] { return cross_entropy(Tensor::zeros({0, 5}), ids({})); });
}

TEST(MisusedOps, Int8Weights) {
  const Tensor x = numbers({3, 4});
  const QuantizedTensor good = to_dtype({numbers({5, 4})}, DType::i8);
  const Tensor expected = linear(x, LinearWeights({Weight(good)})).value();
  const auto product = [&](const Tensor& values, const Tensor& scales) {
    return [&x, values, scales] { return linear(x, LinearWeights({int8_weight(values, scales)})).value(); };
  };
  for (const Unfit& unfit : unfit_elements(good.scales, {}))
    expect_refusal("linear", "scales " + unfit.what, product(good.values, unfit.tensor));
  for (const int64_t count : {0, 4, 6})
    expect_refusal("linear", "scales", product(good.values, Tensor::zeros({count})));
  expect_refusal_or(expected, "columns of scales",
                    product(good.values, strided(good.scales.reshape({5, 1}))));
  expect_refusal_or(expected, "columns of values", product(strided(good.values), good.scales));
  const Tensor wide = Tensor::zeros({1, 65537}, DType::i8);
  expect_refusal("linear", "rows that are too long", [&] {
    return linear(Tensor::zeros({1, 65537}), LinearWeights({int8_weight(wide, numbers({1}))})).value();
  });
  expect_refusal("int8", "not finite", [&] {
    to_dtype({Tensor::full({2, 2}, std::numeric_limits<float>::infinity())}, DType::i8);
  });
  expect_refusal("linear", "no weights", [] { LinearWeights weights({}); });
  expect_refusal("linear", "biases", [] { LinearWeights weights({numbers({5, 4})}, {{}, {}}); });
  for (const char* name : {"", "f16", "F32", "int8 "})
    expect_refusal("dtype", name, [&] { weight_dtype_from_name(name); });
}

TEST(MisusedTape, Gradients) {
  const Variable x = Variable::parameter(numbers({3, 4}));
  const Tensor dy = numbers({3, 4});
  for (const Unfit& unfit : unfit_elements(dy, {})) {
    Tape tape;
    const Variable y = scaled(x, 2);
    expect_refusal("backward", unfit.what, [&] { tape.backward(y, unfit.tensor); });
    expect_refusal("gradient", unfit.what, [&] { x.add_grad(unfit.tensor); });
    EXPECT_FALSE(x.has_grad()) << "a refused gradient was counted";
  }
  for (const Unfit& unfit : unfit_shapes(dy, {})) {
    Tape tape;
    const Variable y = scaled(x, 2);
    expect_refusal("backward", unfit.what, [&] { tape.backward(y, unfit.tensor); });
    expect_refusal("gradient", unfit.what, [&] { x.add_grad(unfit.tensor); });
  }
  Tape tape;
  const Variable loss = sum(x * x);
  expect_refusal("backward", "several elements", [&] { tape.backward(x * x); });
  expect_refusal("backward", "a parameter", [&] { tape.backward(x); });
  expect_refusal("", "an undefined loss", [&] { tape.backward(Variable()); });
  expect_refusal("", "a constant", [&] { tape.backward(Tensor::zeros({1})); });
  tape.backward(loss);
  expect_refusal("backward", "twice", [&] { tape.backward(loss); });
  expect_refusal_or(scaled(x.value(), 2).value(), "the gradient after all that", [&] { return x.grad(); });
  expect_refusal("tape", "a second tape", [] { const Tape second; });
  expect_refusal("record", "no backward function", [&] { Tape::record("mine", numbers({1}), {}); });
  expect_refusal("linear_of", "no function", [&] { linear_of({}, LinearWeights({numbers({1, 1})})); });
  expect_refusal("recomputed", "no function", [&] { recomputed(numbers({1}), {}); });
  const Tape::Pause pause;
  expect_refusal("record", "no tape", [&] { Tape::record("mine", numbers({1}), [](const Tensor&) {}); });
  const Variable constant = numbers({2});
  expect_refusal("set_requires_grad", "a constant", [&] { constant.set_requires_grad(true); });
  Variable none;
  expect_refusal("undefined", "value", [&] { return none.value(); });
  expect_refusal("undefined", "set_value", [&] { none.set_value(numbers({1})); });
  expect_refusal("undefined", "mutable_value", [&] { none.mutable_value(); });
  expect_refusal("undefined", "add_grad", [&] { none.add_grad(numbers({1})); });
  expect_refusal("undefined", "clear_grad", [&] { none.clear_grad(); });
  expect_refusal("undefined", "gradient_slot", [&] { none.gradient_slot(); });
}

}  // namespace
