// Optimizers: invalid options, parameters and gradients.

#include <gtest/gtest.h>

#include <limits>

#include "qkv/nn/linear.h"
#include "qkv/optim/adafactor.h"
#include "qkv/optim/adagrad.h"
#include "qkv/optim/adam.h"
#include "qkv/optim/rmsprop.h"
#include "qkv/optim/sgd.h"
#include "tests/support/misuse.h"
#include "tests/support/random.h"

namespace {

using namespace qkv;
using namespace qkv::optim;
using namespace qkv::testing;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                kInfinity = std::numeric_limits<float>::infinity();

std::vector<NamedParameter> matrix_of(const Tensor& value) {
  nn::Parameter parameter({3, 4}, {});
  parameter.variable.set_value(value);
  return {{"matrix", parameter}};
}

TEST(MisusedOptimizers, Options) {
  const auto good = matrix_of(random_tensor({3, 4}, 1));
  for (const float number : {-0.1f, kNan, kInfinity}) {
    THROWS("adam.beta1", Adam(good, {.beta1 = number}));
    THROWS("adam.beta2", Adam(good, {.beta2 = number}));
    THROWS("adam.epsilon", Adam(good, {.epsilon = number}));
    THROWS("adam.weight_decay", Adam(good, {.weight_decay = number}));
    THROWS("sgd.momentum", Sgd(good, {.momentum = number}));
    THROWS("sgd.weight_decay", Sgd(good, {.weight_decay = number}));
    THROWS("rmsprop.alpha", Rmsprop(good, {.alpha = number}));
    THROWS("rmsprop.epsilon", Rmsprop(good, {.epsilon = number}));
    THROWS("adagrad.lr_decay", Adagrad(good, {.lr_decay = number}));
    THROWS("adafactor.epsilon1", Adafactor(good, {.epsilon1 = number}));
    if (number != kInfinity) {
      THROWS("clip_norm", Sgd(good, {}, {.clip_norm = number}));
    }
    THROWS("average_decay", Sgd(good, {}, {.average_decay = number}));
    const auto all = [](const NamedParameter&) { return true; };
    THROWS(
        "group",
        Sgd(good, {}, {.groups = {{.contains = all, .learning_rate_factor = static_cast<double>(number)}}}));
    if (number != kInfinity) {
      THROWS("group", Sgd(good, {}, {.groups = {{.contains = all, .weight_decay = number}}}));
    }
    Sgd sgd(good);
    THROWS("learning rate", sgd.step(static_cast<double>(number)));
  }
  THROWS("adafactor.clip_threshold", Adafactor(good, {.clip_threshold = 0.5f}));
  THROWS("adafactor.beta2_decay", Adafactor(good, {.beta2_decay = 0.5f}));
  THROWS("sgd.nesterov", Sgd(good, {.nesterov = true}));
  // A group that selects nothing, and an optimizer without parameters.
  Sgd nothing(std::vector<NamedParameter>{}, {}, {.groups = {{}}});
  EXPECT_EQ(nothing.step(0.1), 0);
  Adam adam(good, {}, {.average_decay = 0.9f});
  THROWS("average", adam.average(1).shape());
}

// Each rule, with values and gradients whose shape changes afterwards.
TEST(MisusedOptimizers, Parameters) {
  const Tensor good = random_tensor({3, 4}, 1);
  const std::vector<std::function<std::unique_ptr<Optimizer>(std::vector<NamedParameter>)>> rules{
      [](auto all) { return std::make_unique<Adam>(all, AdamOptions{.amsgrad = true}); },
      [](auto all) { return std::make_unique<Sgd>(all, SgdOptions{.momentum = 0.9f}); },
      [](auto all) { return std::make_unique<Rmsprop>(all, RmspropOptions{.centered = true}); },
      [](auto all) { return std::make_unique<Adagrad>(all, AdagradOptions{}); },
      [](auto all) { return std::make_unique<Adafactor>(all, AdafactorOptions{}); }};
  for (const auto& rule : rules) {
    for (const Unfit& value : unfit_variants(good, {})) {
      THROWS("matrix", rule(matrix_of(value.tensor))) << ("at first " + value.what);
      const auto own = matrix_of(good.clone());
      const auto optimizer = rule(own);
      Variable variable = own[0].parameter.variable;
      variable.add_grad(good);
      variable.set_value(value.tensor);
      THROWS("matrix", optimizer->step(0.1)) << ("later " + value.what);
    }
    const auto own = matrix_of(good.clone());
    const auto optimizer = rule(own);
    Variable variable = own[0].parameter.variable;
    variable.set_value(strided(good));
    variable.add_grad(good);
    THROWS("matrix", optimizer->step(0.1));
    EXPECT_EQ(optimizer->steps(), 0);
    variable.set_value(good.clone());
    variable.clear_grad();
    variable.add_grad(Tensor::full({3, 4}, kNan));
    THROWS("matrix", optimizer->step(0.1));
    RETURNS(good, variable.value());
    THROWS("", rule({{"none", nn::Parameter()}}));
  }
}

}  // namespace
