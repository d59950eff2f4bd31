// Adam and clipping against PyTorch's (tests/golden/pytorch.py).

#include "qkv/train/adam.h"

#include <algorithm>
#include <cmath>

#include "tests/support/golden.h"

namespace qkv::train {
namespace {

using testing::Golden;

// To 1e-5 of the largest number, however small that is.
void expect_relatively_close(const Tensor& found, const Tensor& expected, const std::string& what) {
  double largest = 0;
  for (const float x : expected.values()) largest = std::max(largest, std::abs(static_cast<double>(x)));
  testing::expect_close(found, expected, what, 1e-5 * std::min(1.0, largest));
}

Golden golden_file(const std::string& name) {
  return Golden(testing::golden_files("train", name + ".safetensors").at(0));
}

NamedParameter parameter(const std::string& name, const Tensor& value) {
  nn::Parameter result(value.shape(), {});
  result.variable.set_value(value.clone());
  return {name, result};
}

Tensor state_of(const Adam& adam, const std::string& name) {
  for (const io::NamedTensor& one : adam.state()) {
    if (one.name == name) return one.tensor;
  }
  return {};
}

void expect_steps(const std::string& name) {
  SCOPED_TRACE(name);
  const Golden golden = golden_file(name);
  const NamedParameter weight = parameter("weight", golden["value.0"]);
  Adam adam({weight}, {.beta1 = std::stof(golden.text("beta1")),
                       .beta2 = std::stof(golden.text("beta2")),
                       .epsilon = std::stof(golden.text("epsilon")),
                       .weight_decay = std::stof(golden.text("weight_decay"))});
  const Tensor rates = golden["learning_rate"];
  for (int64_t step = 1; step <= rates.numel(); ++step) {
    weight.parameter.variable.add_grad(golden[concat("gradient.", step)]);
    adam.step(static_cast<double>(rates.data()[step - 1]));
    const std::string now = concat("value.", step);
    expect_relatively_close(weight.parameter.variable.value(), golden[now], now);
  }
  expect_relatively_close(state_of(adam, "adam.first/weight"), golden["first_moment"], "first moment");
  expect_relatively_close(state_of(adam, "adam.second/weight"), golden["second_moment"], "second moment");
}

TEST(PytorchAdam, Adam) { expect_steps("adam"); }
TEST(PytorchAdam, AdamW) { expect_steps("adamw"); }

// What was clipped shows in the first moment, (1 - beta1) * gradient after one step.
TEST(PytorchAdam, ClipsByTheGlobalNorm) {
  const Golden golden = golden_file("clip_gradients");
  for (const std::string name : {"large", "small"}) {
    SCOPED_TRACE(name);
    std::vector<NamedParameter> parameters;
    for (int i = 0; i < 3; ++i) {
      const Tensor gradient = golden[concat(name, ".gradient.", i)];
      parameters.push_back(parameter(concat("p", i), gradient));
      parameters.back().parameter.variable.add_grad(gradient);
    }
    Adam adam(parameters, {.beta1 = 0.5f, .clip_norm = std::stof(golden.text("max_norm"))});
    const double norm = adam.step(0.001);
    EXPECT_NEAR(norm, static_cast<double>(golden[name + ".norm"].item()), 1e-5);
    for (int i = 0; i < 3; ++i) {
      const Tensor moment = state_of(adam, concat("adam.first/p", i)).clone();
      for (float& x : moment.values()) x *= 2;
      expect_relatively_close(moment, golden[concat(name, ".clipped.", i)], concat("gradient ", i));
    }
  }
}

}  // namespace
}  // namespace qkv::train
