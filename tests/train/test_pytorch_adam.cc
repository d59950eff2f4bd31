// Adam and clipping against PyTorch's (tests/golden/pytorch.py).

#include "qkv/train/adam.h"
#include "tests/golden/pytorch.h"

namespace qkv::train {
namespace {

using testing::Golden;

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
  const Golden golden("train/golden/" + name);
  const NamedParameter weight = parameter("weight", golden.tensor("value.0"));
  Adam adam({weight}, {.beta1 = golden.number("beta1"),
                       .beta2 = golden.number("beta2"),
                       .epsilon = golden.number("epsilon"),
                       .weight_decay = golden.number("weight_decay")});
  const Tensor rates = golden.tensor("learning_rate");
  for (int64_t step = 1; step <= rates.numel(); ++step) {
    weight.parameter.variable.add_grad(golden.tensor(concat("gradient.", step)));
    adam.step(static_cast<double>(rates.data()[step - 1]));
    golden.expect(concat("value.", step), weight.parameter.variable.value());
  }
  golden.expect("first_moment", state_of(adam, "adam.first/weight"));
  golden.expect("second_moment", state_of(adam, "adam.second/weight"));
}

TEST(PytorchAdam, Adam) { expect_steps("adam"); }
TEST(PytorchAdam, AdamW) { expect_steps("adamw"); }

// What was clipped shows in the first moment, (1 - beta1) * gradient after one step.
TEST(PytorchAdam, ClipsByTheGlobalNorm) {
  const Golden golden("train/golden/clip_gradients");
  for (const std::string name : {"large", "small"}) {
    SCOPED_TRACE(name);
    std::vector<NamedParameter> parameters;
    for (int i = 0; i < 3; ++i) {
      const Tensor gradient = golden.tensor(concat(name, ".gradient.", i));
      parameters.push_back(parameter(concat("p", i), gradient));
      parameters.back().parameter.variable.add_grad(gradient);
    }
    Adam adam(parameters, {.beta1 = 0.5f, .clip_norm = golden.number("max_norm")});
    const double norm = adam.step(0.001);
    EXPECT_NEAR(norm, static_cast<double>(golden.tensor(name + ".norm").item()), 1e-5);
    for (int i = 0; i < 3; ++i) {
      const Tensor moment = state_of(adam, concat("adam.first/p", i)).clone();
      for (float& x : moment.values()) x *= 2;
      golden.expect(concat(name, ".clipped.", i), moment);
    }
  }
}

}  // namespace
}  // namespace qkv::train
