// Operations on values of any shape, compared with PyTorch's in float64 (tests/golden/general_ops.py).

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/losses.h"
#include "qkv/ops/general/matmul.h"
#include "qkv/ops/general/pooling.h"
#include "qkv/ops/general/reduce.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/general/slice.h"
#include "qkv/ops/general/softmax.h"
#include "qkv/ops/general/weighted_sum.h"
#include "tests/support/golden.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

// Inputs by name, in alphabetical order: x, y, z.
using Inputs = std::map<std::string, Variable>;

struct Op {
  std::function<Variable(const Golden&, const Inputs&)> run;
  // Maximum error of an element of the values and the gradients, in units of 2^-24 times the largest element
  // of its tensor. 2^-24 is the error of one rounding; the golden value's own is half as large.
  double value_bound, gradient_bound;
};

Reduction reduction_of(const Golden& golden) {
  const std::string name = golden.text("reduction");
  return name == "mean" ? Reduction::mean : name == "sum" ? Reduction::sum : Reduction::none;
}

int axis_of(const Golden& golden) { return static_cast<int>(golden.whole("axis")); }

KeepAxis keep_of(const Golden& golden) { return golden.flag("keep") ? KeepAxis::yes : KeepAxis::no; }

Offsets offsets_of(const Golden& golden) {
  const Tensor offsets = golden["offsets"];
  return Offsets({offsets.values<int32_t>().begin(), offsets.values<int32_t>().end()});
}

Variable class_loss(const Golden& golden, const Variable& logits) {
  ClassLossOptions options{.ignored_label = static_cast<int32_t>(golden.whole("ignored_label")),
                           .label_smoothing = std::stof(golden.text("label_smoothing")),
                           .reduction = reduction_of(golden)};
  if (golden.has("class_weights")) options.class_weights = golden["class_weights"];
  return cross_entropy(logits, golden["labels"], options);
}

const std::map<std::string, Op>& ops() {
  static const std::map<std::string, Op> all{
      // One rounding: the float32 nearest to the exact result. Gradients of broadcast inputs are sums.
      {"add", {[](const Golden&, const Inputs& in) { return in.at("x") + in.at("y"); }, 0, 2}},
      {"subtract", {[](const Golden&, const Inputs& in) { return in.at("x") - in.at("y"); }, 0, 2}},
      {"multiply", {[](const Golden&, const Inputs& in) { return in.at("x") * in.at("y"); }, 0, 2}},
      {"divide", {[](const Golden&, const Inputs& in) { return in.at("x") / in.at("y"); }, 0, 4}},
      {"scalars",
       {[](const Golden&, const Inputs& in) {
          const Variable& x = in.at("x");
          return (2.5f + x) * 0.75f + (1.5f - x) / 3.0f + 2.0f / x - (x - 0.5f) + 1.25f * -x;
        },
        4, 4}},
      {"used_twice",
       {[](const Golden&, const Inputs& in) { return in.at("x") * in.at("x") + in.at("x"); }, 2, 4}},
      {"sum_all", {[](const Golden&, const Inputs& in) { return sum(in.at("x")); }, 8, 0}},
      {"mean_all", {[](const Golden&, const Inputs& in) { return mean(in.at("x")); }, 8, 2}},
      {"sum",
       {[](const Golden& golden, const Inputs& in) {
          return sum(in.at("x"), axis_of(golden), keep_of(golden));
        },
        4, 0}},
      {"mean",
       {[](const Golden& golden, const Inputs& in) {
          return mean(in.at("x"), axis_of(golden), keep_of(golden));
        },
        4, 2}},
      {"softmax", {[](const Golden&, const Inputs& in) { return softmax(in.at("x")); }, 8, 8}},
      {"log_softmax", {[](const Golden&, const Inputs& in) { return log_softmax(in.at("x")); }, 4, 8}},
      {"matmul", {[](const Golden&, const Inputs& in) { return matmul(in.at("x"), in.at("y")); }, 4, 4}},
      // No arithmetic.
      {"transpose", {[](const Golden&, const Inputs& in) { return transpose(in.at("x")); }, 0, 0}},
      {"concatenate",
       {[](const Golden& golden, const Inputs& in) {
          return concatenate({in.at("x"), in.at("y"), in.at("z")}, axis_of(golden));
        },
        0, 0}},
      {"slice",
       {[](const Golden& golden, const Inputs& in) {
          return slice(in.at("x"), axis_of(golden), golden.whole("begin"), golden.whole("count"));
        },
        0, 0}},
      {"gather",
       {[](const Golden& golden, const Inputs& in) { return gather(in.at("x"), golden["rows"]); }, 0, 2}},
      {"reshape",
       {[](const Golden& golden, const Inputs& in) { return reshape(in.at("x"), golden["output"].shape()); },
        0, 0}},
      {"segment_mean",
       {[](const Golden& golden, const Inputs& in) { return segment_mean(in.at("x"), offsets_of(golden)); },
        2, 1}},
      {"segment_max",
       {[](const Golden& golden, const Inputs& in) { return segment_max(in.at("x"), offsets_of(golden)); }, 0,
        0}},
      {"cross_entropy",
       {[](const Golden& golden, const Inputs& in) { return class_loss(golden, in.at("x")); }, 8, 8}},
      {"mse",
       {[](const Golden& golden, const Inputs& in) {
          return mse(in.at("x"), in.at("y"), reduction_of(golden));
        },
        4, 4}},
  };
  return all;
}

// Every element within `bound` units of 2^-24 of the largest expected element.
void expect_within(const Tensor& found, const Tensor& expected, double bound, const std::string& what) {
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  const std::span<const float> wanted = expected.values();
  double largest = 0;
  for (const float value : wanted) largest = std::max(largest, std::abs(double{value}));
  const Tensor dense = found.contiguous() ? found : found.clone();
  const double unit = largest * 0x1p-24;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double error = std::abs(double{dense.values()[i]} - double{wanted[i]});
    ASSERT_TRUE(error <= bound * unit)
        << what << ", element " << i << ": expected " << wanted[i] << ", found " << dense.values()[i]
        << ", which is " << error / unit << " units away";
  }
}

class GeneralOp : public ::testing::TestWithParam<std::string> {};

TEST_P(GeneralOp, AgreesWithPyTorch) {
  const Golden golden(GetParam());
  const Op& op = ops().at(golden.text("op"));
  Inputs inputs;
  for (const char* name : {"x", "y", "z"}) {
    if (golden.has(name)) inputs[name] = Variable::parameter(golden[name]);
  }
  Tape tape;
  const Variable output = op.run(golden, inputs);
  expect_within(output.value(), golden["output"], op.value_bound, "output");
  tape.backward(weighted_sum(output, golden["grad_output"]));
  for (const auto& [name, input] : inputs) {
    expect_within(input.grad(), golden["grad." + name], op.gradient_bound, "gradient of " + name);
  }
}

std::string general_case_name(const ::testing::TestParamInfo<std::string>& info) {
  return std::filesystem::path(info.param).stem().string().substr(8);
}

INSTANTIATE_TEST_SUITE_P(Golden, GeneralOp, ::testing::ValuesIn(golden_files("ops", "general_")),
                         general_case_name);

TEST(GeneralOps, EveryOpHasNumbers) {
  std::set<std::string> named, known;
  for (const std::string& path : golden_files("ops", "general_")) named.insert(Golden(path).text("op"));
  for (const auto& [name, op] : ops()) known.insert(name);
  EXPECT_EQ(named, known);
}

}  // namespace
