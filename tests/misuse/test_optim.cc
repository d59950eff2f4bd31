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
    expect_refusal("adam.beta1", "range", [&] { Adam(good, {.beta1 = number}); });
    expect_refusal("adam.beta2", "range", [&] { Adam(good, {.beta2 = number}); });
    expect_refusal("adam.epsilon", "range", [&] { Adam(good, {.epsilon = number}); });
    expect_refusal("adam.weight_decay", "range", [&] { Adam(good, {.weight_decay = number}); });
    expect_refusal("sgd.momentum", "range", [&] { Sgd(good, {.momentum = number}); });
    expect_refusal("sgd.weight_decay", "range", [&] { Sgd(good, {.weight_decay = number}); });
    expect_refusal("rmsprop.alpha", "range", [&] { Rmsprop(good, {.alpha = number}); });
    expect_refusal("rmsprop.epsilon", "range", [&] { Rmsprop(good, {.epsilon = number}); });
    expect_refusal("adagrad.lr_decay", "range", [&] { Adagrad(good, {.lr_decay = number}); });
    expect_refusal("adafactor.epsilon1", "range", [&] { Adafactor(good, {.epsilon1 = number}); });
    if (number != kInfinity)
      expect_refusal("clip_norm", "range", [&] { Sgd(good, {}, {.clip_norm = number}); });
    expect_refusal("average_decay", "range", [&] { Sgd(good, {}, {.average_decay = number}); });
    const auto all = [](const NamedParameter&) { return true; };
    expect_refusal("group", "factor", [&] {
      Sgd(good, {}, {.groups = {{.contains = all, .learning_rate_factor = static_cast<double>(number)}}});
    });
    if (number != kInfinity) {
      expect_refusal("group", "weight_decay",
                     [&] { Sgd(good, {}, {.groups = {{.contains = all, .weight_decay = number}}}); });
    }
    Sgd sgd(good);
    expect_refusal("learning rate", "range", [&] { sgd.step(static_cast<double>(number)); });
  }
  expect_refusal("adafactor.clip_threshold", "range", [&] { Adafactor(good, {.clip_threshold = 0.5f}); });
  expect_refusal("adafactor.beta2_decay", "range", [&] { Adafactor(good, {.beta2_decay = 0.5f}); });
  expect_refusal("sgd.nesterov", "without momentum", [&] { Sgd(good, {.nesterov = true}); });
  // A group that selects nothing, and an optimizer without parameters.
  Sgd nothing(std::vector<NamedParameter>{}, {}, {.groups = {{}}});
  EXPECT_EQ(nothing.step(0.1), 0);
  Adam adam(good, {}, {.average_decay = 0.9f});
  expect_refusal("average", "index", [&] { return adam.average(1).shape(); });
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
    for (const auto& unfit : {unfit_elements(good, {}), unfit_shapes(good, {})}) {
      for (const Unfit& value : unfit) {
        expect_refusal("matrix", "at first " + value.what, [&] { rule(matrix_of(value.tensor)); });
        const auto own = matrix_of(good.clone());
        const auto optimizer = rule(own);
        Variable variable = own[0].parameter.variable;
        variable.add_grad(good);
        variable.set_value(value.tensor);
        expect_refusal("matrix", "later " + value.what, [&] { optimizer->step(0.1); });
      }
    }
    const auto own = matrix_of(good.clone());
    const auto optimizer = rule(own);
    Variable variable = own[0].parameter.variable;
    variable.set_value(strided(good));
    variable.add_grad(good);
    expect_refusal("matrix", "columns", [&] { optimizer->step(0.1); });
    EXPECT_EQ(optimizer->steps(), 0);
    variable.set_value(good.clone());
    variable.clear_grad();
    variable.add_grad(Tensor::full({3, 4}, kNan));
    expect_refusal("matrix", "a NaN", [&] { optimizer->step(0.1); });
    expect_refusal_or(good, "the value after that", [&] { return variable.value(); });
    expect_refusal("", "an undefined parameter", [&] { rule({{"none", nn::Parameter()}}); });
  }
}

}  // namespace
