#include "qkv/kernels/cpu/kernels.h"

#include <gtest/gtest.h>

#include <limits>

#include "qkv/kernels/reference/activation.h"
#include "qkv/kernels/reference/dropout.h"
#include "tests/kernels/rowwise.h"

namespace qkv::kernels {
namespace {

constexpr Accumulate kBoth[] = {Accumulate::no, Accumulate::yes};
constexpr int64_t kLengths = 2 * 16 + 3;  // more than two of the widest vectors

std::string describe(int64_t count, int64_t misaligned, Accumulate accumulate) {
  return std::to_string(count) + " numbers, " + std::to_string(misaligned) + " past alignment, accumulate " +
         std::to_string(accumulate == Accumulate::yes);
}

TEST(Pointwise, CopyScaleAdd) {
  for_each_target([] {
    for (int64_t count = 1; count <= kLengths; ++count) {
      for (const int64_t misaligned : {0, 1, 3}) {
        for (const Accumulate accumulate : kBoth) {
          const std::string what = describe(count, misaligned, accumulate);
          const Numbers x(count, 1, 2, misaligned);
          std::vector<double> same, scaled, sums;
          Numbers copied(count, 2), multiplied(count, 3), z(count, 4);
          for (int64_t i = 0; i < count; ++i) {
            same.push_back(double{x[i]});
            scaled.push_back(-1.75 * double{x[i]});
            sums.push_back(double{x[i]} + double{copied[i]});
          }
          cpu::add(x.data(), copied.data(), z.data(), count);
          expect_near(z, sums, 1e-7, 1e-7, Accumulate::no, what);
          cpu::copy(x.data(), copied.data(), count, accumulate);
          expect_near(copied, same, accumulate == Accumulate::no ? 0 : 2e-7, 0, accumulate, what);
          cpu::scale(x.data(), -1.75f, multiplied.data(), count, accumulate);
          expect_near(multiplied, scaled, 5e-7, 0, accumulate, what);
        }
      }
    }
  });
}

TEST(Pointwise, ActivationsAndTheirGradients) {
  for_each_target([] {
    for (const Activation activation : kActivations) {
      for (int64_t cols = 1; cols <= kLengths; ++cols) {
        for (const Accumulate accumulate : kBoth) {
          const int64_t rows = 3, count = rows * cols, misaligned = cols % 4;
          const std::string what = "activation " + std::to_string(static_cast<int>(activation)) + ": " +
                                   describe(count, misaligned, accumulate);
          const Numbers x(count, 5, 6, misaligned), dy(count, 6);
          std::vector<double> values, gradients;
          for (int64_t i = 0; i < count; ++i) {
            values.push_back(reference::activation(activation, double{x[i]}));
            gradients.push_back(reference::activation_derivative(activation, double{x[i]}) * double{dy[i]});
          }
          Numbers y(count, 7), dx(count, 8);
          cpu::activate(activation, x.data(), y.data(), rows, cols, {});
          expect_near(y, values, 5e-7, 5e-7, Accumulate::no, what);
          cpu::activate_backward(activation, x.data(), dy.data(), dx.data(), rows, cols, {}, accumulate);
          expect_near(dx, gradients, 7e-7, 5e-7, accumulate, what);
        }
      }
    }
  });
}

// Computed from the output instead of the input; also if the gradient overwrites dy.
TEST(Pointwise, ReluBackwardEqualsActivateBackward) {
  for_each_target([] {
    for (int64_t cols = 1; cols <= kLengths; ++cols) {
      for (const float rate : {0.0f, 0.4f}) {
        const int64_t rows = 3, count = rows * cols, misaligned = cols % 4;
        const Dropout dropout{.rate = rate, .seed = 7, .step = 1, .site = 2, .first_row = 9};
        const Numbers x(count, 5, 6, misaligned), dy(count, 6, 1, misaligned);
        Numbers y(count, 7), expected(count, 8), found(count, 9), in_place = dy;
        cpu::activate(Activation::relu, x.data(), y.data(), rows, cols, dropout);
        cpu::activate_backward(Activation::relu, x.data(), dy.data(), expected.data(), rows, cols, dropout,
                               Accumulate::no);
        cpu::relu_backward(y.data(), dy.data(), dropout.scale(), found.data(), count);
        cpu::relu_backward(y.data(), in_place.data(), dropout.scale(), in_place.data(), count);
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(found[i], expected[i]) << cols << " columns, rate " << rate << ", at " << i;
          ASSERT_EQ(in_place[i], expected[i]) << cols << " columns, rate " << rate << ", at " << i;
        }
        EXPECT_TRUE(found.surroundings_untouched() && in_place.surroundings_untouched());
      }
    }
  });
}

// A dense grid of floats, so that no boundary of an approximation is missed.
TEST(Pointwise, ActivationsAreAccurateEverywhere) {
  for_each_target([] {
    constexpr int64_t kCount = 40000;
    Numbers x(kCount, 9);
    for (int64_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(i - kCount / 2) * 1e-3f;
    const Numbers ones = [] {
      Numbers numbers(kCount, 10);
      for (int64_t i = 0; i < kCount; ++i) numbers[i] = 1;
      return numbers;
    }();
    for (const Activation activation : kActivations) {
      std::vector<double> values, derivatives;
      for (int64_t i = 0; i < kCount; ++i) {
        values.push_back(reference::activation(activation, double{x[i]}));
        derivatives.push_back(reference::activation_derivative(activation, double{x[i]}));
      }
      Numbers y(kCount, 11), dx(kCount, 12);
      cpu::activate(activation, x.data(), y.data(), 1, kCount, {});
      expect_near(y, values, 3e-7, 3e-7, Accumulate::no, std::to_string(static_cast<int>(activation)));
      cpu::activate_backward(activation, x.data(), ones.data(), dx.data(), 1, kCount, {}, Accumulate::no);
      expect_near(dx, derivatives, 6e-7, 3e-7, Accumulate::no, std::to_string(static_cast<int>(activation)));
    }
  });
}

TEST(Pointwise, ActivationsOfExtremeNumbers) {
  for_each_target([] {
    for (const Activation activation : kActivations) {
      const bool bounded = activation == Activation::tanh, identity = activation == Activation::identity;
      const bool squared = activation == Activation::relu_squared;
      Numbers x(4, 13), y(4, 14);
      x[0] = 1e30f;
      x[1] = -1e30f;
      x[2] = std::numeric_limits<float>::quiet_NaN();
      x[3] = 100;
      cpu::activate(activation, x.data(), y.data(), 1, 4, {});
      EXPECT_EQ(y[0], bounded ? 1.0f : squared ? HUGE_VALF : 1e30f);
      EXPECT_EQ(y[1], bounded ? -1.0f : identity ? -1e30f : 0.0f);
      EXPECT_TRUE(std::isnan(y[2])) << "hidden by " << static_cast<int>(activation);
      EXPECT_EQ(y[3], bounded ? 1.0f : squared ? 10000.0f : 100.0f);
      Numbers dy(4, 15), dx(4, 16);
      cpu::activate_backward(activation, x.data(), dy.data(), dx.data(), 1, 4, {}, Accumulate::no);
      EXPECT_EQ(dx[0], bounded ? 0.0f : squared ? 2 * x[0] * dy[0] : dy[0]);
      EXPECT_NEAR(dx[1], identity ? dy[1] : 0.0f, 1e-30f);
    }
  });
}

// Checks the reference: its derivatives are the slopes of its values.
TEST(Pointwise, ReferenceDerivativesMatchFiniteDifferences) {
  for (const Activation activation : kActivations) {
    for (double x = -6.05; x < 6.1; x += 0.1) {
      const double h = 1e-5;
      const double slope =
          (reference::activation(activation, x + h) - reference::activation(activation, x - h)) / (2 * h);
      EXPECT_NEAR(reference::activation_derivative(activation, x), slope, 1e-9) << x;
    }
  }
}

TEST(Pointwise, ActivationInPlaceWithDropoutIsThreadInvariant) {
  for_each_target([] {
    for (const int64_t cols : {5, 64, 700}) {
      const int64_t rows = 200, count = rows * cols;
      const Dropout dropout = some_dropout();
      const Numbers x(count, 17, 3), dy(count, 18);
      std::vector<double> values, gradients;
      for (int64_t i = 0; i < count; ++i) {
        const double factor = reference::dropout_factor(dropout, i / cols, i % cols);
        values.push_back(factor * reference::activation(Activation::gelu_exact, double{x[i]}));
        gradients.push_back(factor * double{dy[i]} *
                            reference::activation_derivative(Activation::gelu_exact, double{x[i]}));
      }
      const auto forward = [&] {
        Numbers y = x;
        cpu::activate(Activation::gelu_exact, y.data(), y.data(), rows, cols, dropout);
        return y;
      };
      expect_near(forward(), values, 5e-7, 5e-7, Accumulate::no, "y in the place of x");
      expect_same_for_any_threads(forward);
      const auto backward = [&] {
        Numbers dx = dy;
        cpu::activate_backward(Activation::gelu_exact, x.data(), dx.data(), dx.data(), rows, cols, dropout,
                               Accumulate::no);
        return dx;
      };
      expect_near(backward(), gradients, 7e-7, 5e-7, Accumulate::no, "dx in the place of dy");
      expect_same_for_any_threads(backward);
    }
  });
}

TEST(Pointwise, SumRows) {
  for_each_target([] {
    for (const int64_t rows : {1, 2, 3, 4, 7, 63, 64, 65, 300, 5000}) {
      for (const int64_t cols : {1, 3, 16, 17, 33, 40}) {
        for (const Accumulate accumulate : kBoth) {
          const int64_t stride = cols + 2;
          const Numbers dy(rows * stride, 19);
          std::vector<double> sums(static_cast<size_t>(cols));
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t c = 0; c < cols; ++c) sums[static_cast<size_t>(c)] += double{dy[r * stride + c]};
          }
          const auto result = [&] {
            Numbers result_sums(cols, 20);
            cpu::column_sums(dy.data(), rows, cols, stride, result_sums.data(), accumulate);
            return result_sums;
          };
          expect_near(result(), sums, 1e-6 * std::sqrt(static_cast<double>(rows)), 1e-6, accumulate,
                      std::to_string(rows) + " rows");
          if (rows == 5000 && cols == 33) expect_same_for_any_threads(result);
        }
      }
    }
  });
}

}  // namespace
}  // namespace qkv::kernels
