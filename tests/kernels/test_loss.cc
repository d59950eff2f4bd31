#include "qkv/kernels/cpu/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "qkv/kernels/loss.h"
#include "qkv/kernels/reference/loss.h"
#include "qkv/tensor/device_memory.h"
#include "tests/kernels/rowwise.h"
#include "tests/support/devices.h"

namespace qkv::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<int64_t> columns() {
  std::vector<int64_t> result;
  for (int64_t c = 1; c <= 2 * 16 + 3; ++c) result.push_back(c);
  result.insert(result.end(), {64, 127, 1023, 1025, 8000});
  return result;
}

std::vector<int32_t> labels_for(int64_t rows, int64_t cols) {
  std::vector<int32_t> labels;
  for (int64_t r = 0; r < rows; ++r) labels.push_back(static_cast<int32_t>((7 * r + cols / 2) % cols));
  labels.back() = static_cast<int32_t>(cols - 1);
  return labels;
}

TEST(Loss, CrossEntropy) {
  for_each_target([] {
    for (const int64_t cols : columns()) {
      const int64_t rows = 3;
      const Numbers bias(cols, 1, 2);
      const std::vector<int32_t> labels = labels_for(rows, cols);
      for (const float size : {4.0f, 1e4f}) {
        for (const float smoothing : {0.0f, 0.1f}) {
          for (const bool has_bias : {false, true}) {
            Numbers logits(rows * cols, 2, size, cols % 4), loss(rows, 3), nll(rows, 4);
            const CrossEntropy arguments{.logits = logits.data(),
                                         .bias = has_bias ? bias.data() : nullptr,
                                         .labels = labels.data(),
                                         .rows = rows,
                                         .cols = cols,
                                         .smoothing = smoothing,
                                         .grad_scale = 0.5f,
                                         .loss = loss.data(),
                                         .nll = nll.data()};
            const auto expected = reference::losses(arguments);
            cpu::cross_entropy(arguments);
            const std::string what = std::to_string(cols) + " columns of size " + std::to_string(size);
            expect_near(loss, expected.loss, 3e-7, 5e-7, Accumulate::no, what + ": loss");
            expect_near(nll, expected.nll, 3e-7, 3e-7, Accumulate::no, what + ": nll");
            expect_near(logits, expected.gradient, 1e-7, 3e-7, Accumulate::no, what + ": gradient");
          }
        }
      }
    }
  });
}

TEST(Loss, GradientMatchesFiniteDifferences) {
  const int64_t cols = 9;
  const int32_t label = 4;
  Numbers logits(cols, 5, 2);
  const auto arguments = [&](Numbers& values, Numbers& loss) {
    return CrossEntropy{.logits = values.data(),
                        .labels = &label,
                        .rows = 1,
                        .cols = cols,
                        .smoothing = 0.1f,
                        .loss = loss.data(),
                        .nll = loss.data() + 1};
  };
  Numbers gradient = logits, loss(2, 6);
  cpu::cross_entropy(arguments(gradient, loss));
  for (int64_t i = 0; i < cols; ++i) {
    Numbers above = logits, below = logits;
    above[i] += 0.0078125f;
    below[i] -= 0.0078125f;
    const double slope =
        reference::losses(arguments(above, loss)).loss[0] - reference::losses(arguments(below, loss)).loss[0];
    EXPECT_NEAR(gradient[i], slope / 0.015625, 1e-5);
  }
}

TEST(Loss, PropagatesNonFiniteValues) {
  for_each_target([] {
    for (const float smoothing : {0.0f, 0.1f}) {
      for (const int64_t cols : {5, 16, 100}) {
        for (const int64_t at : {int64_t{0}, cols / 2, cols - 1}) {
          for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
            Numbers logits(cols, 7), loss(1, 8), nll(1, 9);
            logits[at] = bad;
            const int32_t label = 1;
            cpu::cross_entropy({.logits = logits.data(),
                                .labels = &label,
                                .rows = 1,
                                .cols = cols,
                                .smoothing = smoothing,
                                .loss = loss.data(),
                                .nll = nll.data()});
            EXPECT_FALSE(std::isfinite(loss[0])) << bad << " at " << at << " of " << cols;
            EXPECT_FALSE(std::isfinite(nll[0])) << bad << " at " << at << " of " << cols;
            Numbers probabilities(cols, 10);
            probabilities[at] = bad;
            cpu::softmax(probabilities.data(), probabilities.data(), 1, cols);
            EXPECT_FALSE(std::isfinite(probabilities[at]));
          }
        }
      }
    }
  });
}

// A logit of minus infinity excludes a token, which is an error only for the label's.
TEST(Loss, MinusInfinityHasProbabilityZero) {
  const int64_t cols = 40;
  Numbers logits(cols, 11), loss(1, 12), nll(1, 13);
  logits[3] = -kInfinity;
  Numbers log_p(cols, 14);
  cpu::log_softmax(logits.data(), nullptr, log_p.data(), 1, cols);
  EXPECT_EQ(log_p[3], -kInfinity);
  double sum = 0;
  for (int64_t c = 0; c < cols; ++c) sum += std::exp(double{log_p[c]});
  EXPECT_NEAR(sum, 1, 1e-6);
  const int32_t label = 4;
  cpu::cross_entropy({.logits = logits.data(),
                      .labels = &label,
                      .rows = 1,
                      .cols = cols,
                      .loss = loss.data(),
                      .nll = nll.data()});
  EXPECT_NEAR(loss[0], -log_p[4], 1e-6f);
  EXPECT_EQ(logits[3], 0.0f);
}

TEST(Loss, LogSoftmaxAndSoftmax) {
  for_each_target([] {
    for (const int64_t cols : columns()) {
      for (const float size : {3.0f, 1e4f}) {
        const int64_t rows = 2;
        const Numbers x(rows * cols, 15, size, cols % 3), bias(cols, 16);
        for (const float* b : {static_cast<const float*>(nullptr), bias.data()}) {
          const auto expected = reference::log_softmax(x.data(), b, rows, cols);
          Numbers y(rows * cols, 17), in_place = x;
          cpu::log_softmax(x.data(), b, y.data(), rows, cols);
          expect_near(y, expected, 4e-7, 4e-7, Accumulate::no, std::to_string(cols) + " columns");
          cpu::log_softmax(in_place.data(), b, in_place.data(), rows, cols);
          EXPECT_TRUE(in_place.same_bits(y));
        }
        auto expected = reference::log_softmax(x.data(), nullptr, rows, cols);
        for (double& v : expected) v = std::exp(v);
        Numbers y(rows * cols, 18), in_place = x;
        cpu::softmax(x.data(), y.data(), rows, cols);
        expect_near(y, expected, 1e-7, 4e-7, Accumulate::no, std::to_string(cols) + " columns");
        cpu::softmax(in_place.data(), in_place.data(), rows, cols);
        EXPECT_TRUE(in_place.same_bits(y));
      }
    }
  });
}

TEST(Loss, RowsAreIndependentAndThreadInvariant) {
  const int64_t rows = 40, cols = 1001;
  const Numbers logits(rows * cols, 19, 5);
  const std::vector<int32_t> labels = labels_for(rows, cols);
  Numbers nll(rows, 20);
  const auto gradient = [&] {
    Numbers x = logits, loss(rows, 21);
    cpu::cross_entropy({.logits = x.data(),
                        .labels = labels.data(),
                        .rows = rows,
                        .cols = cols,
                        .smoothing = 0.1f,
                        .loss = loss.data(),
                        .nll = nll.data()});
    return x;
  };
  expect_same_for_any_threads(gradient);
  const Numbers all = gradient();
  Numbers one(cols, 22), loss(1, 23);
  std::copy(logits.data() + 17 * cols, logits.data() + 18 * cols, one.data());
  cpu::cross_entropy({.logits = one.data(),
                      .labels = &labels[17],
                      .rows = 1,
                      .cols = cols,
                      .smoothing = 0.1f,
                      .loss = loss.data(),
                      .nll = nll.data()});
  EXPECT_EQ(std::memcmp(one.data(), all.data() + 17 * cols, static_cast<size_t>(cols) * 4), 0);
}

// All tokens of a row in their order, from the definition.
std::vector<ScoredToken> in_order(const float* logits, int64_t cols) {
  const auto log_p = reference::log_softmax(logits, nullptr, 1, cols);
  std::vector<ScoredToken> all;
  for (int64_t c = 0; c < cols; ++c)
    all.push_back({static_cast<float>(log_p[static_cast<size_t>(c)]), static_cast<int32_t>(c)});
  std::stable_sort(all.begin(), all.end(), [](const ScoredToken& a, const ScoredToken& b) {
    return a.log_probability > b.log_probability;
  });
  return all;
}

TEST(Loss, BestTokens) {
  qkv::testing::for_each_device([](Device device) {
    for (const int64_t cols : {1, 5, 33, 1000, 5003}) {
      constexpr int64_t kRows = 3;
      const Numbers numbers(kRows * cols, 31, 4);
      std::vector<float> logits(numbers.data(), numbers.data() + kRows * cols);
      // Ties, also as the best of a row, and tokens that are impossible.
      for (int64_t c = 0; c < cols; c += 3)
        logits[static_cast<size_t>(cols + c)] = c % 2 == 0 ? 1.5f : -kInfinity;
      for (const int64_t count : {int64_t{1}, std::min<int64_t>(cols, 7), std::min<int64_t>(cols, 200)}) {
        SCOPED_TRACE(std::to_string(count) + " of " + std::to_string(cols));
        const int64_t waits = device_waits();
        const auto found = best_tokens(from_host(Tensor::from(logits, {kRows, cols}), device), count);
        EXPECT_EQ(device_waits() - waits, device == Device::cpu ? 0 : 1);
        ASSERT_EQ(std::ssize(found), kRows * count);
        for (int64_t r = 0; r < kRows; ++r) {
          const auto expected = in_order(logits.data() + r * cols, cols);
          for (int64_t i = 0; i < count; ++i) {
            const ScoredToken& own = found[static_cast<size_t>(r * count + i)];
            EXPECT_EQ(own.id, expected[static_cast<size_t>(i)].id) << "row " << r << ", place " << i;
            const float log_p = expected[static_cast<size_t>(i)].log_probability;
            EXPECT_TRUE(own.log_probability == log_p || std::abs(own.log_probability - log_p) < 4e-6f)
                << own.log_probability << " " << log_p;
          }
        }
      }
    }
  });
}

TEST(Loss, BestTokensOfARowThatIsNotFinite) {
  qkv::testing::for_each_device([](Device device) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
      std::vector<float> logits{1, 2, 3, 4, 5, bad, 6, 7, 9, 8};
      const auto found = best_tokens(from_host(Tensor::from(logits, {2, 5}), device), 2);
      EXPECT_EQ(found[0].id, 4);
      EXPECT_EQ(found[1].id, 3);
      for (const size_t i : {2, 3}) EXPECT_TRUE(std::isnan(found[i].log_probability)) << bad;
    }
  });
}

}  // namespace
}  // namespace qkv::kernels
