// The optimizers and clipping, compared with PyTorch (tests/golden/optimizers.py).

#include <algorithm>
#include <cmath>
#include <memory>

#include "qkv/io/safetensors.h"
#include "qkv/optim/adafactor.h"
#include "qkv/optim/adagrad.h"
#include "qkv/optim/adam.h"
#include "qkv/optim/rmsprop.h"
#include "qkv/optim/sgd.h"
#include "tests/support/golden.h"

namespace qkv::optim {
namespace {

using testing::Golden;

// To 1e-5 of the largest element.
void expect_relatively_close(const Tensor& found, const Tensor& expected, const std::string& what) {
  double largest = 0;
  for (const float x : expected.values()) largest = std::max(largest, std::abs(static_cast<double>(x)));
  testing::expect_close(found, expected, what, 1e-5 * std::min(1.0, largest));
}

Golden golden_file(const std::string& name) {
  return Golden(testing::golden_files("optim", name + ".safetensors").at(0));
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

// With the file's options, and qkv's defaults (which are PyTorch's) for the rest.
std::unique_ptr<Optimizer> optimizer_of(const Golden& golden, const std::vector<NamedParameter>& parameters) {
  const auto number = [&](const std::string& key, float otherwise) {
    return golden.has_text(key) ? std::stof(golden.text(key)) : otherwise;
  };
  const float decay = number("weight_decay", 0);
  const std::string kind = golden.text("optimizer");
  if (kind == "adam" || kind == "adamw") {
    const AdamOptions options{.beta1 = number("beta1", 0),
                              .beta2 = number("beta2", 0),
                              .epsilon = number("epsilon", 0),
                              .amsgrad = golden.flag("amsgrad"),
                              .weight_decay = decay};
    if (kind == "adam") return std::make_unique<Adam>(parameters, options);
    return std::make_unique<AdamW>(parameters, options);
  }
  if (kind == "sgd") {
    const SgdOptions options;
    return std::make_unique<Sgd>(parameters, SgdOptions{.momentum = number("momentum", options.momentum),
                                                        .dampening = number("dampening", options.dampening),
                                                        .nesterov = golden.flag("nesterov"),
                                                        .weight_decay = decay});
  }
  if (kind == "rmsprop") {
    const RmspropOptions options;
    return std::make_unique<Rmsprop>(parameters,
                                     RmspropOptions{.alpha = number("alpha", options.alpha),
                                                    .epsilon = number("epsilon", options.epsilon),
                                                    .momentum = number("momentum", options.momentum),
                                                    .centered = golden.flag("centered"),
                                                    .weight_decay = decay});
  }
  if (kind == "adagrad") {
    const AdagradOptions options;
    return std::make_unique<Adagrad>(parameters,
                                     AdagradOptions{.lr_decay = number("lr_decay", options.lr_decay),
                                                    .initial_accumulator = number("initial_accumulator", 0),
                                                    .epsilon = number("epsilon", options.epsilon),
                                                    .weight_decay = decay});
  }
  EXPECT_EQ(kind, "adafactor");
  const AdafactorOptions options;
  return std::make_unique<Adafactor>(
      parameters, AdafactorOptions{.beta2_decay = number("beta2_decay", options.beta2_decay),
                                   .epsilon1 = number("epsilon1", 0),
                                   .epsilon2 = number("epsilon2", 0),
                                   .clip_threshold = number("clip_threshold", options.clip_threshold),
                                   .weight_decay = decay});
}

class Pytorch : public ::testing::TestWithParam<const char*> {};

TEST_P(Pytorch, TakesTheSameSteps) {
  const Golden golden = golden_file(GetParam());
  const std::vector<NamedParameter> parameters{parameter("m", golden["m.value.0"]),
                                               parameter("v", golden["v.value.0"])};
  const std::unique_ptr<Optimizer> optimizer = optimizer_of(golden, parameters);
  const Tensor rates = golden["learning_rate"];
  ASSERT_EQ(rates.numel(), 6);
  for (int64_t step = 1; step <= rates.numel(); ++step) {
    for (const auto& [name, one] : parameters)
      one.variable.add_grad(golden[concat(name, ".gradient.", step)]);
    optimizer->step(static_cast<double>(rates.data()[step - 1]));
    for (const auto& [name, one] : parameters) {
      const std::string now = concat(name, ".value.", step);
      expect_relatively_close(one.variable.value(), golden[now], now);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Pytorch,
                         ::testing::Values("adam", "adam_coupled", "adam_amsgrad", "adamw", "adamw_amsgrad",
                                           "sgd", "sgd_momentum", "sgd_nesterov", "rmsprop",
                                           "rmsprop_momentum", "rmsprop_centered", "adagrad", "adafactor",
                                           "adafactor_decay"),
                         [](const auto& one) { return std::string(one.param); });

// Clipping is visible in the first moment, (1 - beta1) * gradient after one step.
TEST(PytorchGradients, ClipsByTheGlobalNorm) {
  const Golden golden = golden_file("clip_gradients");
  for (const std::string name : {"large", "small"}) {
    SCOPED_TRACE(name);
    std::vector<NamedParameter> parameters;
    for (int i = 0; i < 3; ++i) {
      const Tensor gradient = golden[concat(name, ".gradient.", i)];
      parameters.push_back(parameter(concat("p", i), gradient));
      parameters.back().parameter.variable.add_grad(gradient);
    }
    Adam adam(parameters, {.beta1 = 0.5f}, {.clip_norm = std::stof(golden.text("max_norm"))});
    const double norm = adam.step(0.001);
    EXPECT_NEAR(norm, static_cast<double>(golden[name + ".norm"].item()), 1e-5);
    for (int i = 0; i < 3; ++i) {
      Tensor moment = state_of(adam, concat("adam.first/p", i)).clone();
      for (float& x : moment.values()) x *= 2;
      expect_relatively_close(moment, golden[concat(name, ".clipped.", i)], concat("gradient ", i));
    }
  }
}

}  // namespace
}  // namespace qkv::optim
