// The projection to logits, compared with loops in double precision.

#include "qkv/nn/logits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "qkv/nn/named_parameters.h"
#include "qkv/ops/quantize.h"
#include "tests/support/random.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

using Matrix = std::vector<std::vector<double>>;

constexpr int64_t kWidth = 5, kVocabulary = 9, kTokens = 7;
const std::vector<int32_t> kLabels{3, 0, 8, 8, 1, 5, 2};

nn::LogitsOptions options() {
  return {.d_model = kWidth, .vocabulary = kVocabulary, .bias = true, .scale = 0.7f, .softcap = 1.5f};
}

// Large enough that the softcap bends the logits.
Tensor hidden() { return random_tensor({kTokens, kWidth}, 3); }

std::map<std::string, Tensor> initialised(const nn::Logits& logits) {
  std::map<std::string, Tensor> values;
  logits.visit([&](const std::string& name, const nn::Parameter& parameter) {
    parameter.set_value({random_tensor(parameter.shape, name == "bias" ? 1 : name == "weight" ? 2 : 7), {}});
    values[name] = parameter.variable.value();
  });
  return values;
}

double at(const Tensor& x, int64_t row, int64_t column) { return double{x.data()[row * x.cols() + column]}; }

// (logit, derivative of the softcap) of each token and word.
std::pair<Matrix, Matrix> loop(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  Matrix logits(kTokens, std::vector<double>(kVocabulary)), slopes = logits;
  for (size_t t = 0; t < kTokens; ++t) {
    for (size_t v = 0; v < kVocabulary; ++v) {
      double z = double{bias.data()[v]};
      for (int64_t i = 0; i < kWidth; ++i)
        z += double{options().scale} * at(x, static_cast<int64_t>(t), i) *
             at(weight, static_cast<int64_t>(v), i);
      const double bent = std::tanh(z / double{options().softcap});
      logits[t][v] = double{options().softcap} * bent;
      slopes[t][v] = 1 - bent * bent;
    }
  }
  return {logits, slopes};
}

double log_sum_exp(const std::vector<double>& row) {
  double sum = 0;
  for (const double x : row) sum += std::exp(x);
  return std::log(sum);
}

TEST(Logits, AreThoseOfTheLoop) {
  const nn::Logits logits(options());
  auto values = initialised(logits);
  const Matrix expected = loop(hidden(), values["weight"], values["bias"]).first;
  const Tensor found = logits(hidden()).value();
  const std::vector<int32_t> some{1, 4, 8};
  const Tensor selected = logits.select(some)(hidden()).value();
  std::vector<Tensor> rows;
  const std::vector<float> scores = logits.log_probabilities(
      hidden(), kLabels,
      [&](std::span<const float> row) { rows.push_back(Tensor::from(row, {kVocabulary})); });
  ASSERT_EQ(rows.size(), size_t{kTokens});
  for (size_t t = 0; t < kTokens; ++t) {
    const auto row = static_cast<int64_t>(t);
    const double sum = log_sum_exp(expected[t]);
    for (size_t v = 0; v < kVocabulary; ++v) {
      EXPECT_NEAR(at(found, row, static_cast<int64_t>(v)), expected[t][v], 1e-6);
      EXPECT_NEAR(double{rows[t].values()[v]}, expected[t][v] - sum, 1e-6);
    }
    for (size_t i = 0; i < some.size(); ++i)
      EXPECT_EQ(selected.at(row, static_cast<int64_t>(i)), found.at(row, some[i]));
    EXPECT_EQ(scores[t], rows[t].at(kLabels[t]));
  }
}

TEST(Logits, LossAndGradientsAreThoseOfTheLoop) {
  const nn::Logits logits(options());
  auto values = initialised(logits);
  const auto [z, slopes] = loop(hidden(), values["weight"], values["bias"]);
  constexpr double kSmoothing = 0.125, kFactor = 0.5;
  double loss = 0;
  Matrix x_gradient(kTokens, std::vector<double>(kWidth)),
      w_gradient(kVocabulary, std::vector<double>(kWidth));
  std::vector<double> b_gradient(kVocabulary);
  for (size_t t = 0; t < kTokens; ++t) {
    const auto row = static_cast<int64_t>(t);
    const double sum = log_sum_exp(z[t]);
    for (size_t v = 0; v < kVocabulary; ++v) {
      const double target =
          kSmoothing / kVocabulary + (static_cast<int32_t>(v) == kLabels[t] ? 1 - kSmoothing : 0);
      loss += kFactor * target * (sum - z[t][v]);
      const double dz = kFactor * (std::exp(z[t][v] - sum) - target) * slopes[t][v];
      b_gradient[v] += dz;
      for (size_t i = 0; i < kWidth; ++i) {
        const auto column = static_cast<int64_t>(i);
        x_gradient[t][i] +=
            dz * double{options().scale} * at(values["weight"], static_cast<int64_t>(v), column);
        w_gradient[v][i] += dz * double{options().scale} * at(hidden(), row, column);
      }
    }
  }
  for (const int64_t chunk : {2, 512}) {
    const Variable x = Variable::parameter(hidden());
    Tape tape;
    const CrossEntropyResult result = logits.cross_entropy(
        x, Tensor::from(kLabels, {kTokens}),
        {.label_smoothing = float{kSmoothing}, .factor = float{kFactor}, .chunk_rows = chunk});
    EXPECT_NEAR(result.sums().loss * kFactor, loss, 1e-6);
    tape.backward(result.loss);
    const auto expect_near = [](const Tensor& found, const auto& expected) {
      for (size_t i = 0; i < expected.size(); ++i) {
        if constexpr (requires { expected[i].size(); }) {
          for (size_t j = 0; j < expected[i].size(); ++j)
            EXPECT_NEAR(at(found, static_cast<int64_t>(i), static_cast<int64_t>(j)), expected[i][j], 1e-6);
        } else {
          EXPECT_NEAR(double{found.values()[i]}, expected[i], 1e-6);
        }
      }
    };
    expect_near(x.grad(), x_gradient);
    for (auto& [name, parameter] : nn::parameters_of(logits)) {
      name == "bias" ? expect_near(parameter.variable.grad(), b_gradient)
                     : expect_near(parameter.variable.grad(), w_gradient);
      Variable(parameter.variable).clear_grad();
    }
  }
}

// With a layer before the projection: the results of the same without one, of the layer's result.
TEST(Logits, LayerIsBeforeTheProjection) {
  constexpr int64_t kInner = 6;
  for (const bool biased : {false, true}) {
    const nn::LogitsLayer layer{.width = kInner,
                                .activation = Activation::silu,
                                .bias = biased,
                                .epsilon = 0.1f,
                                .norm_bias = biased};
    nn::LogitsOptions with = options(), without = options();
    with.layer = layer;
    without.d_model = kInner;
    const nn::Logits logits(with), plain(without);
    auto values = initialised(logits);
    ASSERT_EQ(values.size(), biased ? 6U : 4U);
    plain.visit([&](const std::string& name, const nn::Parameter& parameter) {
      parameter.set_value({values[name], {}});
    });
    Tensor inner = Tensor::empty({kTokens, kInner});
    for (int64_t t = 0; t < kTokens; ++t) {
      std::vector<double> row;
      double mean = 0, square = 0;
      for (int64_t o = 0; o < kInner; ++o) {
        double z = biased ? double{values["dense.bias"].data()[o]} : 0;
        for (int64_t i = 0; i < kWidth; ++i) z += at(hidden(), t, i) * at(values["dense.weight"], o, i);
        row.push_back(z / (1 + std::exp(-z)));
        mean += row.back() / kInner;
      }
      for (const double one : row) square += (one - mean) * (one - mean) / kInner;
      for (int64_t o = 0; o < kInner; ++o) {
        const double one = (row[static_cast<size_t>(o)] - mean) / std::sqrt(square + 0.1) *
                           double{values["layer_norm.weight"].data()[o]};
        inner.data()[t * kInner + o] =
            static_cast<float>(one + (biased ? double{values["layer_norm.bias"].data()[o]} : 0));
      }
    }
    const auto expect_near = [](const Tensor& found, const Tensor& expected) {
      ASSERT_EQ(found.shape(), expected.shape());
      for (int64_t i = 0; i < found.numel(); ++i) EXPECT_NEAR(found.data()[i], expected.data()[i], 1e-5);
    };
    const std::vector<int32_t> some{1, 4};
    expect_near(logits(hidden()).value(), plain(inner).value());
    expect_near(logits.select(some)(hidden()).value(), plain.select(some)(inner).value());
    const Tensor labels = Tensor::from(kLabels, {kTokens});
    EXPECT_NEAR(logits.cross_entropy(hidden(), labels, {}).sums().loss,
                plain.cross_entropy(inner, labels, {}).sums().loss, 1e-4);
    const auto scores = logits.log_probabilities(hidden(), kLabels),
               own = plain.log_probabilities(inner, kLabels);
    for (size_t t = 0; t < scores.size(); ++t) EXPECT_NEAR(scores[t], own[t], 1e-5);
  }
}

TEST(Logits, SelectedRowsKeepDtypeAndLowRankUpdate) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
    const nn::Logits logits(options());
    initialised(logits);
    logits.visit([&](const std::string& name, const nn::Parameter& parameter) {
      if (name == "bias") return;
      parameter.set_value(to_dtype({parameter.variable.value(), {}}, dtype));
      *parameter.low_rank = {random_tensor({2, kWidth}, 5), random_tensor({kVocabulary, 2}, 6), 0.5f};
    });
    const std::vector<int32_t> some{0, 3, 7, 8};
    const Tensor found = logits.select(some)(hidden()).value(), all = logits(hidden()).value();
    for (int64_t t = 0; t < kTokens; ++t) {
      for (size_t i = 0; i < some.size(); ++i)
        EXPECT_EQ(found.at(t, static_cast<int64_t>(i)), all.at(t, some[i])) << name_of(dtype);
    }
  }
}

TEST(Logits, TiedTableHasOneParameter) {
  const nn::Parameter table = nn::Parameter::weight_matrix({kVocabulary, kWidth}, {});
  std::vector<std::string> names;
  nn::Logits(options(), table.weight()).visit([&](const std::string& name, const nn::Parameter&) {
    names.push_back(name);
  });
  EXPECT_EQ(names, std::vector<std::string>{"bias"});
}

TEST(Logits, WrongOptionsAreNamed) {
  nn::LogitsOptions wrong = options();
  wrong.softcap = -1;
  EXPECT_THROW(nn::Logits{wrong}, UsageError);
  wrong = options();
  wrong.d_model = 0;
  EXPECT_THROW(nn::Logits{wrong}, UsageError);
  const nn::Logits logits(options());
  initialised(logits);
  EXPECT_THROW(logits.select(std::vector<int32_t>{9}), UsageError);
  EXPECT_THROW(logits.log_probabilities(hidden(), std::vector<int32_t>(kTokens, -1)), DataError);
}

}  // namespace
