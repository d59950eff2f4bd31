#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/io/safetensors.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/weights_file.h"
#include "qkv/optim/adam.h"
#include "qkv/optim/sgd.h"
#include "tests/support/scratch.h"

namespace qkv::optim {
namespace {

using testing::expect_contains;
using testing::expect_throw;
using testing::message_of;
using testing::Scratch;

// A gradient as a function of step and parameter.
Tensor gradient_for(const Shape& shape, int step, int which) {
  Tensor gradient = Tensor::empty(shape);
  int place = 0;
  for (float& x : gradient.values()) {
    x = 0.7f * std::sin(static_cast<float>(1 + 3 * place + 5 * step + 7 * which));
    ++place;
  }
  return gradient;
}

// Likewise in double precision, from the papers' formulas.
struct Reference {
  std::vector<double> w, m, v, average;

  explicit Reference(const Tensor& start) : w(start.values().begin(), start.values().end()) {
    m.assign(w.size(), 0);
    v.assign(w.size(), 0);
    average = w;
  }
  void step(const Tensor& gradient, double factor, double rate, int t, const AdamOptions& options,
            double average_decay, double decay_rate) {
    for (size_t i = 0; i < w.size(); ++i) {
      const double g = factor * gradient.data()[i];
      m[i] = options.beta1 * m[i] + (1 - options.beta1) * g;
      v[i] = options.beta2 * v[i] + (1 - options.beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(options.beta1, t));
      const double v_hat = v[i] / (1 - std::pow(options.beta2, t));
      w[i] -= rate * (m_hat / (std::sqrt(v_hat) + options.epsilon) + decay_rate * w[i]);
      const double keep = std::min<double>(average_decay, (1.0 + t) / (10.0 + t));
      average[i] = keep * average[i] + (1 - keep) * w[i];
    }
  }
};

void expect_near(const Tensor& found, const std::vector<double>& expected, const std::string& what) {
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(found.data()[i], expected[i], 2e-6) << what << " element " << i;
}

TEST(Adam, EqualsTheFormulasInDoublePrecision) {
  const nn::Linear module({.inputs = 5, .outputs = 7});
  nn::initialise(module, 3);
  const AdamOptions options{.weight_decay = 0.1f};
  AdamW adam(module, options, {.clip_norm = 2, .average_decay = 0.4f, .groups = {no_decay_of_vectors()}});
  std::vector<Reference> references;
  for (const auto& [name, parameter] : adam.parameters()) references.emplace_back(parameter.variable.value());

  bool clipped = false, unclipped = false;
  for (int t = 1; t <= 12; ++t) {
    const double rate = 0.01 * t;
    const float scale = t % 3 == 0 ? 0.25f : 1.0f;
    double squares = 0;
    std::vector<Tensor> gradients;
    for (size_t i = 0; i < references.size(); ++i) {
      const nn::Parameter& parameter = adam.parameters()[i].parameter;
      gradients.push_back(gradient_for(parameter.shape, t, static_cast<int>(i)));
      for (float& x : gradients.back().values()) {
        x *= scale;
        squares += static_cast<double>(x) * x;
      }
      parameter.variable.add_grad(gradients.back());
    }
    const double norm = std::sqrt(squares);
    (norm > 2 ? clipped : unclipped) = true;
    const uint64_t version = adam.parameters()[0].parameter.variable.version();
    EXPECT_NEAR(adam.step(rate), norm, 1e-5);
    EXPECT_GT(adam.parameters()[0].parameter.variable.version(), version);
    EXPECT_FALSE(adam.parameters()[0].parameter.variable.has_grad());
    for (size_t i = 0; i < references.size(); ++i) {
      const nn::Parameter& parameter = adam.parameters()[i].parameter;
      // Decay applies to matrices only.
      references[i].step(gradients[i], norm > 2 ? 2 / norm : 1, rate, t, options, 0.4,
                         parameter.shape.rank() > 1 ? 0.1 : 0);
      expect_near(parameter.variable.value(), references[i].w, concat("value at step ", t));
      expect_near(adam.average(i), references[i].average, concat("average at step ", t));
    }
  }
  EXPECT_TRUE(clipped && unclipped);
  EXPECT_EQ(adam.steps(), 12);
}

TEST(Adam, NamesTheFirstGradientThatIsNotFinite) {
  const nn::Linear module({.inputs = 3, .outputs = 4});
  nn::initialise(module, 1);
  Adam adam(module);
  const Tensor before = module.weight().variable.value().clone();
  module.weight().variable.add_grad(gradient_for({4, 3}, 0, 0));
  Tensor bad = gradient_for({4}, 0, 1);
  bad.data()[2] = std::numeric_limits<float>::infinity();
  module.bias().variable.add_grad(bad);
  expect_throw<NumericError>("step 1: the gradient of bias [4] holds an infinity", [&] { adam.step(0.1); });
  EXPECT_EQ(adam.steps(), 0);
  for (int i = 0; i < 12; ++i)
    EXPECT_EQ(module.weight().variable.value().data()[i], before.data()[i]) << "changed all the same";
}

void give_gradients(const Optimizer& optimizer, int t) {
  int which = 0;
  for (const auto& [name, parameter] : optimizer.parameters())
    parameter.variable.add_grad(gradient_for(parameter.shape, t, which++));
}

void expect_same_bits(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.numel(), b.numel()) << what;
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.bytes()), 0) << what;
}

// A parameter without a gradient in one step has its own step count, which is restored too.
TEST(Optimizer, GoesOnFromItsState) {
  const Scratch scratch;
  const nn::Linear one({.inputs = 3, .outputs = 4}), other({.inputs = 3, .outputs = 4});
  nn::initialise(one, 1);
  nn::initialise(other, 1);
  const OptimizerOptions common{.average_decay = 0.9f};
  Adam a(one, {.amsgrad = true}, common), b(other, {.amsgrad = true}, common);
  for (int t = 1; t <= 3; ++t) {
    give_gradients(a, t);
    if (t == 2) {
      Variable bias = a.parameters()[1].parameter.variable;
      bias.clear_grad();
    }
    a.step(0.05);
  }
  io::write_safetensors(scratch / "state", a.state());
  nn::save(one, scratch / "weights");
  nn::load(other, scratch / "weights");
  b.restore(io::SafetensorsFile(scratch / "state"));
  EXPECT_EQ(b.steps(), 3);
  for (int t = 4; t <= 6; ++t) {
    for (Adam* adam : {&a, &b}) {
      give_gradients(*adam, t);
      adam->step(0.05);
    }
  }
  for (size_t i = 0; i < a.parameters().size(); ++i) {
    expect_same_bits(a.average(i), b.average(i), "average");
    expect_same_bits(a.parameters()[i].parameter.variable.value(),
                     b.parameters()[i].parameter.variable.value(), a.parameters()[i].name);
  }
  const nn::Linear wider({.inputs = 3, .outputs = 5});
  nn::initialise(wider, 1);
  Adam c(wider, {.amsgrad = true}, common);
  expect_throw<DataError>("adam.first", [&] { c.restore(io::SafetensorsFile(scratch / "state")); });
  Sgd d(other, {.momentum = 0.9f});
  expect_throw<DataError>("sgd.steps", [&] { d.restore(io::SafetensorsFile(scratch / "state")); });
}

// With gradient descent, the effect of each setting is directly visible.
TEST(Optimizer, GroupsHaveTheirOwnSettings) {
  const nn::Linear module({.inputs = 2, .outputs = 2});
  const auto after_a_step = [&](std::vector<ParameterGroup> groups) {
    nn::initialise(module, 1);
    Sgd sgd(module, {.weight_decay = 0.5f}, {.groups = std::move(groups)});
    std::vector<float> moved;
    for (const auto& [name, parameter] : sgd.parameters()) {
      Variable variable = parameter.variable;
      variable.mutable_value().copy_from(Tensor::full(parameter.shape, 2));
      variable.add_grad(Tensor::full(parameter.shape, 3));
    }
    sgd.step(0.25);
    for (const auto& [name, parameter] : sgd.parameters()) {
      EXPECT_FALSE(parameter.variable.has_grad()) << name;
      moved.push_back(2 - parameter.variable.value().data()[0]);
    }
    return moved;
  };
  EXPECT_EQ(after_a_step({}), (std::vector<float>{1, 1}));
  EXPECT_EQ(after_a_step({no_decay_of_vectors()}), (std::vector<float>{1, 0.75f}));
  EXPECT_EQ(after_a_step({{.contains = named("weight"), .learning_rate_factor = 0.5}}),
            (std::vector<float>{0.5f, 1}));
  EXPECT_EQ(after_a_step({{.contains = named("bias"), .frozen = true}, no_decay_of_vectors()}),
            (std::vector<float>{1, 0}))
      << "the first group that contains it";
}

TEST(Optimizer, LeavesFrozenParametersAndThoseWithoutGradients) {
  const nn::Linear module({.inputs = 2, .outputs = 2});
  nn::initialise(module, 1);
  AdamW adam(module, {.weight_decay = 0.5f});
  const Tensor weight = module.weight().variable.value().clone(),
               bias = module.bias().variable.value().clone();
  module.bias().variable.add_grad(Tensor::full({2}, 1));
  adam.step(0.1);
  expect_same_bits(module.weight().variable.value(), weight, "no gradient, no decay");
  EXPECT_NE(module.bias().variable.value().data()[0], bias.data()[0]);
}

TEST(Optimizer, NamesWhatIsWrong) {
  const nn::Linear module({.inputs = 2, .outputs = 2});
  const auto error = [&](auto make) { return message_of<UsageError>(make); };
  expect_contains(error([&] { const Adam adam(module); }), "weight (initialise or load the module first)");
  nn::initialise(module, 1);
  EXPECT_EQ(error([&] { const Adam adam(module, {.beta2 = 1}); }),
            "adam.beta2: expected 0 to below 1, found 1");
  EXPECT_EQ(error([&] { const Adam adam(module, {.epsilon = 0}); }),
            "adam.epsilon: expected more than 0, found 0");
  EXPECT_EQ(error([&] { const Sgd sgd(module, {.nesterov = true}); }),
            "sgd.nesterov: expected momentum and no dampening, found momentum = 0 and dampening = 0");
  EXPECT_EQ(error([&] { const Sgd sgd(module, {}, {.clip_norm = -1}); }),
            "clip_norm: expected 0 or more, found -1");
  EXPECT_EQ(error([&] { const Sgd sgd(module, {}, {.average_decay = 1}); }),
            "average_decay: expected 0 to below 1, found 1");
  Sgd sgd(module);
  EXPECT_EQ(error([&] { sgd.step(std::nan("")); }), "learning rate: expected 0 or more, found nan");
  EXPECT_EQ(sgd.steps(), 0);
}

}  // namespace
}  // namespace qkv::optim
