#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/nn/linear.h"
#include "qkv/train/adam.h"
#include "qkv/train/average.h"
#include "tests/support/scratch.h"

namespace qkv::train {
namespace {

using testing::message_of;
using testing::Scratch;

// A gradient that is a function of step and place.
Tensor gradient_for(const Shape& shape, int step, int which) {
  const Tensor gradient = Tensor::empty(shape);
  int place = 0;
  for (float& x : gradient.values()) {
    x = 0.7f * std::sin(static_cast<float>(1 + 3 * place + 5 * step + 7 * which));
    ++place;
  }
  return gradient;
}

// The same in double precision, straight from the papers' formulas.
struct Reference {
  std::vector<double> w, m, v, average;

  explicit Reference(const Tensor& start) : w(start.values().begin(), start.values().end()) {
    m.assign(w.size(), 0);
    v.assign(w.size(), 0);
    average = w;
  }
  void step(const Tensor& gradient, double factor, double rate, int t, const AdamOptions& options,
            double decay_rate) {
    for (size_t i = 0; i < w.size(); ++i) {
      const double g = factor * gradient.data()[i];
      m[i] = options.beta1 * m[i] + (1 - options.beta1) * g;
      v[i] = options.beta2 * v[i] + (1 - options.beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(options.beta1, t));
      const double v_hat = v[i] / (1 - std::pow(options.beta2, t));
      w[i] -= rate * (m_hat / (std::sqrt(v_hat) + options.epsilon) + decay_rate * w[i]);
      const double keep = std::min<double>(options.average_decay, (1.0 + t) / (10.0 + t));
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
  const AdamOptions options{.weight_decay = 0.1f, .clip_norm = 2, .average_decay = 0.4f};
  Adam adam(module, options);
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
      // Decay is of matrices only.
      references[i].step(gradients[i], norm > 2 ? 2 / norm : 1, rate, t, options,
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
  Adam adam(module, {});
  const Tensor before = module.weight().variable.value().clone();
  module.weight().variable.add_grad(gradient_for({4, 3}, 0, 0));
  const Tensor bad = gradient_for({4}, 0, 1);
  bad.data()[2] = std::numeric_limits<float>::infinity();
  module.bias().variable.add_grad(bad);
  const std::string message = message_of<NumericError>([&] { adam.step(0.1); });
  EXPECT_NE(message.find("step 1: the gradient of bias [4] holds an infinity"), std::string::npos) << message;
  EXPECT_EQ(adam.steps(), 0);
  for (int i = 0; i < 12; ++i)
    EXPECT_EQ(module.weight().variable.value().data()[i], before.data()[i]) << "changed all the same";
}

TEST(Adam, GoesOnFromItsState) {
  const Scratch scratch;
  const nn::Linear one({.inputs = 3, .outputs = 4}), other({.inputs = 3, .outputs = 4});
  nn::initialise(one, 1);
  nn::initialise(other, 1);
  const AdamOptions options{.average_decay = 0.9f};
  Adam a(one, options), b(other, options);
  const auto step = [](Adam& adam, int t) {
    for (const auto& [name, parameter] : adam.parameters())
      parameter.variable.add_grad(gradient_for(parameter.shape, t, 0));
    adam.step(0.05);
  };
  for (int t = 1; t <= 3; ++t) step(a, t);
  io::write_safetensors(scratch / "state", a.state());
  for (size_t i = 0; i < a.parameters().size(); ++i)
    b.parameters()[i].parameter.variable.value().copy_from(a.parameters()[i].parameter.variable.value());
  b.restore(io::SafetensorsFile(scratch / "state"), 3);
  for (int t = 4; t <= 6; ++t) {
    step(a, t);
    step(b, t);
  }
  for (size_t i = 0; i < a.parameters().size(); ++i) {
    for (int64_t k = 0; k < a.average(i).numel(); ++k) {
      EXPECT_EQ(a.average(i).data()[k], b.average(i).data()[k]);
      EXPECT_EQ(a.parameters()[i].parameter.variable.value().data()[k],
                b.parameters()[i].parameter.variable.value().data()[k]);
    }
  }
}

TEST(Average, IsTheMeanOfTheFiles) {
  const Scratch scratch;
  const nn::Linear module({.inputs = 2, .outputs = 3});
  std::vector<std::filesystem::path> files;
  std::vector<double> sum(6, 0.0);
  for (const uint64_t seed : {1u, 2u, 3u}) {
    nn::initialise(module, seed);
    for (size_t i = 0; i < 6; ++i) sum[i] += module.weight().variable.value().data()[i];
    files.push_back(scratch / std::to_string(seed));
    save_weights(files.back(), parameters_of(module));
  }
  average_weights(files, parameters_of(module));
  for (size_t i = 0; i < 6; ++i)
    EXPECT_EQ(module.weight().variable.value().data()[i], static_cast<float>(sum[i] / 3));

  const nn::Linear larger({.inputs = 2, .outputs = 4});
  nn::initialise(larger, 1);
  EXPECT_NE(message_of<DataError>([&] { average_weights(files, parameters_of(larger)); }).find("weight"),
            std::string::npos);
  EXPECT_NE(message_of<UsageError>([&] { average_weights({}, parameters_of(module)); }).find("none"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv::train
