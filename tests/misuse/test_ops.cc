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
  std::string columns = {};          // in the message about columns of a wider matrix; empty: they are right
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
  add("activate", {.good = x, .free = {0, 1}, .columns = "contiguous"},
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
  add("residual", {.good = x, .columns = "contiguous"}, {.good = y, .columns = "contiguous"},
      [](const Tensor& a, const Tensor& b) { return residual(a, b); });
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
  add("rms_norm", {.good = x, .free = {0}, .columns = "contiguous"}, {.good = numbers({4})},
      [](const Tensor& a, const Tensor& weight) { return rms_norm(a, weight, 1e-5f); });
  add("relative_position_bias", {.good = x, .free = {0, 1}, .columns = "a table [buckets, heads]"},
      {.good = ids({0, 1, 0, 1}), .free = {0}},
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
         return linear_of([x = in[0]] { return Variable(x); }, {}, LinearWeights({in[1]}));
       }});
  cases.push_back({"cross_entropy", {{.good = x}, matrix, {.good = labels}}, [](const auto& in) {
                     return linear_cross_entropy(in[0], LinearWeights({in[1]}), in[2], {}).loss;
                   }});
  cases.push_back({"cross_entropy",
                   {{.good = numbers({3, 5})}, {.good = labels}, {.good = bias, .optional = true}},
                   [](const auto& in) { return cross_entropy(in[0], in[1], {.class_weights = in[2]}); }});
  cases.push_back(
      {"layer_norm",
       {{.good = x, .free = {0}, .columns = "contiguous"}, {.good = features}, {.good = features}},
       [](const auto& in) { return layer_norm(in[0], in[1], in[2], 1e-5f); }});
  cases.push_back(
      {"residual_layer_norm",
       {{.good = x, .columns = "contiguous"},
        {.good = x, .columns = "contiguous"},
        {.good = features},
        {.good = features}},
       [](const auto& in) { return residual_layer_norm(in[0], in[1], {}, in[2], in[3], 1e-5f); }});
  cases.push_back(
      {"residual_rms_norm",
       {{.good = x, .columns = "contiguous"}, {.good = x, .columns = "contiguous"}, {.good = features}},
       [](const auto& in) { return residual_rms_norm(in[0], in[1], {}, in[2], 1e-5f); }});
  cases.push_back({"embedding",
                   {{.good = weight, .free = {0}, .also_fit = {DType::bf16}},
                    {.good = labels, .free = {0}},
                    {.good = numbers({6, 4}), .free = {0}, .columns = "contiguous"},
                    {.good = ids({1, 2, 3})}},
                   [](const auto& in) { return embedding(in[0], in[1], in[2], {.position = in[3]}); }});
  cases.push_back({"rotary",
                   {{.good = numbers({3, 12}), .free = {0}},
                    {.good = numbers({8, 2}), .columns = "contiguous"},
                    {.good = numbers({8, 2}), .columns = "contiguous"},
                    {.good = ids({0, 7, 3})}},
                   [](const auto& in) {
                     return rotary(in[0], 3, {in[1], in[2]}, in[3]);
                   }});
  // Two heads of 4 and 6 features, one of keys.
  const Argument optional_mask{.good = Tensor::full({1, 2, 3, 3}, 0.5f),
                               .optional = true,
                               .free = {1, 2, 3},
                               .columns = "does not fit"};
  cases.push_back({"attention",
                   {{.good = numbers({3, 8}), .free = {0}},
                    {.good = numbers({3, 4})},
                    {.good = numbers({3, 6}), .free = {1}},
                    optional_mask,
                    {.good = numbers({2}), .optional = true},
                    {.good = numbers({2, 5}), .optional = true, .free = {1}, .columns = "relative_bias"}},
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
                   {{.good = numbers({2, 3, 2, 4}), .free = {1, 2}, .columns = "contiguous"},
                    {.good = numbers({2, 3, 2, 4}), .free = {}, .columns = "contiguous"},
                    {.good = numbers({2, 3, 2, 4}), .free = {3}, .columns = "contiguous"},
                    {.good = Tensor::zeros({2, 2, 3, 3}, DType::u8),
                     .optional = true,
                     .free = {0, 1, 2, 3},
                     .columns = "does not fit"}},
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
      THROWS(op.name, with(unfit.tensor)()) << (which + unfit.what);
    }
    if (argument.good.rank() > 1) {
      const auto call = with(strided(argument.good));
      const std::string row = op.name + ", " + which + "columns";
      if (argument.columns.empty()) {
        RETURNS(expected, call()) << row;
      } else {
        THROWS(argument.columns, call()) << row;
      }
    }
    if (argument.any_shape) continue;
    for (const Unfit& unfit : unfit_shapes(argument.good, argument.free)) {
      if (argument.ranks_fit && unfit.what == "an axis more") continue;
      THROWS(op.name, with(unfit.tensor)()) << (which + unfit.what);
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
      THROWS(name, call()) << (bad.defined() ? "a parameter without a value" : "an undefined variable");
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
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Variable x = numbers({3, 4});
  for (const float rate : {-0.5f, 1.0f, 1.5f, kNan}) {
    THROWS("activate", activate(x, Activation::relu, {.rate = rate}));
    THROWS("residual", residual(x, x, {.rate = rate}));
    THROWS("gated", gated(x, x, Activation::relu, {.rate = rate}));
    THROWS("attention", multihead_attention(x, x, x, 2, {.dropout = {.rate = rate}}));
  }
  const LinearWeights weights({numbers({5, 4})});
  const Tensor labels = ids({0, 1, 4});
  for (const float smoothing : {-0.1f, 2.0f, kNan}) {
    THROWS("cross_entropy", linear_cross_entropy(x, weights, labels, {.label_smoothing = smoothing}));
    THROWS("cross_entropy", cross_entropy(numbers({3, 5}), labels, {.label_smoothing = smoothing}));
  }
  for (const int64_t rows : {int64_t{0}, int64_t{-1}, -kHuge}) {
    THROWS("cross_entropy", linear_cross_entropy(x, weights, labels, {.chunk_rows = rows}));
  }
  for (const int32_t id : {-1, 5, INT32_MAX, INT32_MIN}) {
    THROWS("cross_entropy", cross_entropy(numbers({1, 5}), ids({id})));
    THROWS("cross_entropy", linear_cross_entropy(numbers({1, 4}), weights, ids({id}), {}));
    THROWS("embedding", embedding(numbers({5, 4}), ids({id}), {}, {}));
    THROWS("embedding", embedding(numbers({5, 4}), ids({0}), numbers({5, 4}), {.position = ids({id})}));
    THROWS("gather", gather(numbers({5, 4}), ids({id})));
    THROWS("rotary", rotary(numbers({1, 4}), 1, {numbers({5, 2}), numbers({5, 2})}, ids({id})));
    THROWS("relative_position_bias", relative_position_bias(numbers({5, 4}), ids({id})));
  }
  for (const int64_t number : {int64_t{-1}, kHuge, -kHuge}) {
    THROWS("slice", slice(x, 0, number, 1));
    THROWS("slice", slice(x, 0, 1, number));
    THROWS("columns", x.columns(number, 1));
    THROWS("columns", x.columns(1, number));
    THROWS("attention", multihead_attention(x, x, x, number, {}));
    THROWS("attention", multihead_attention(x, x, x, 2, {.key_heads = number}));
    THROWS("rotary", rotary(numbers({3, 4}), number, {numbers({5, 2}), numbers({5, 2})}, ids({0, 1, 2})));
    THROWS("prepend", prepend(numbers({1, 4}), x, number));
  }
  THROWS("attention", multihead_attention(x, x, x, 2, {.sinks = Tensor::zeros({3})}));
  THROWS("attention", multihead_attention(x, x, x, 2, {.causal = true, .window = -1}));
  THROWS("", multihead_attention(x, x, x, 2, {.return_top = kHuge}));
  THROWS("attention", multihead_attention(x, x, x, 2, {.return_top = -1}));
  for (const int axis : {-3, 2, INT_MAX, INT_MIN}) {
    THROWS("axis", slice(x, axis, 0, 1));
    THROWS("axis", sum(x, axis));
    THROWS("axis", mean(x, axis));
    THROWS("axis", concatenate({x, x}, axis));
  }
  THROWS("concatenate", concatenate({}, 0));
  THROWS("mean", mean(Variable(Tensor::zeros({0, 4}))));
  // A window of all keys, and more top weights than keys.
  const Tensor all = multihead_attention(x, x, x, 2, {.causal = true}).output.value();
  RETURNS(all, multihead_attention(x, x, x, 2, {.causal = true, .window = kHuge}).output.value());
  RETURNS(
      ids({0, -1, -1, 0, 1, -1}).reshape({2, 1, 3}).slice(0, 0, 1),
      multihead_attention(numbers({1, 4}), numbers({1, 4}), numbers({1, 4}), 1, {.return_top = 3}).top_keys);
}

TEST(MisusedOps, NothingInNothingOut) {
  const auto empty = [](const char* what, const Shape& shape, const std::function<Variable()>& call) {
    RETURNS(Tensor::zeros(shape), call().value()) << what;
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
    THROWS("linear", product(good.values, unfit.tensor)()) << ("scales " + unfit.what);
  for (const int64_t count : {0, 4, 6}) THROWS("linear", product(good.values, Tensor::zeros({count}))());
  THROWS("linear", product(good.values, strided(good.scales.reshape({5, 1})))());
  RETURNS(expected, product(strided(good.values), good.scales)());
  const Tensor wide = Tensor::zeros({1, 65537}, DType::i8);
  THROWS("linear",
         linear(Tensor::zeros({1, 65537}), LinearWeights({int8_weight(wide, numbers({1}))})).value());
  THROWS("int8", to_dtype({Tensor::full({2, 2}, std::numeric_limits<float>::infinity())}, DType::i8));
  THROWS("linear", LinearWeights({}));
  THROWS("linear", LinearWeights({numbers({5, 4})}, {{}, {}}));
  for (const char* name : {"", "fp16", "F32", "int8 "}) THROWS("dtype", weight_dtype_from_name(name)) << name;
}

TEST(MisusedTape, Gradients) {
  const Variable x = Variable::parameter(numbers({3, 4}));
  const Tensor dy = numbers({3, 4});
  for (const Unfit& unfit : unfit_elements(dy, {})) {
    Tape tape;
    const Variable y = scaled(x, 2);
    THROWS("backward", tape.backward(y, unfit.tensor)) << unfit.what;
    THROWS("gradient", x.add_grad(unfit.tensor)) << unfit.what;
    EXPECT_FALSE(x.has_grad()) << "a refused gradient was counted";
  }
  for (const Unfit& unfit : unfit_shapes(dy, {})) {
    Tape tape;
    const Variable y = scaled(x, 2);
    THROWS("backward", tape.backward(y, unfit.tensor)) << unfit.what;
    THROWS("gradient", x.add_grad(unfit.tensor)) << unfit.what;
  }
  Tape tape;
  const Variable loss = sum(x * x);
  THROWS("backward", tape.backward(x * x));
  THROWS("backward", tape.backward(x));
  THROWS("", tape.backward(Variable()));
  THROWS("", tape.backward(Tensor::zeros({1})));
  tape.backward(loss);
  THROWS("backward", tape.backward(loss));
  RETURNS(scaled(x.value(), 2).value(), x.grad());
  THROWS("tape", Tape());
  THROWS("record", Tape::record("mine", numbers({1}), {}, {}));
  THROWS("linear_of", linear_of({}, {}, LinearWeights({numbers({1, 1})})));
  THROWS("recomputed", recomputed(numbers({1}), {}, {}));
  const Tape::Pause pause;
  THROWS("record", Tape::record("mine", numbers({1}), {}, [](const Tensor&) {}));
  const Variable constant = numbers({2});
  THROWS("set_requires_grad", constant.set_requires_grad(true));
  Variable none;
  THROWS("undefined", none.value());
  THROWS("undefined", none.set_value(numbers({1})));
  THROWS("undefined", none.mutable_value());
  THROWS("undefined", none.add_grad(numbers({1})));
  THROWS("undefined", none.clear_grad());
  THROWS("undefined", none.gradient_slot());
}

}  // namespace
