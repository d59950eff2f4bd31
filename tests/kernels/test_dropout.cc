#include "qkv/kernels/dropout.h"

#include <gtest/gtest.h>

#include "qkv/kernels/cpu/kernels.h"
#include "qkv/kernels/reference/dropout.h"
#include "tests/kernels/rowwise.h"

namespace qkv::kernels {
namespace {

TEST(Dropout, KernelsMatchTheDefinition) {
  for_each_target([] {
    for (const float rate : {0.1f, 0.5f, 0.999f}) {
      for (const int64_t cols : {1, 2, 7, 8, 9, 31, 64, 127, 128, 129, 511, 512, 513, 1100}) {
        Dropout dropout = some_dropout(rate);
        dropout.first_row = 0xFFFFFFFEu;  // rows wrap around
        const int64_t rows = 5;
        Numbers x(rows * cols, 1), y(rows * cols, 2);
        for (int64_t i = 0; i < x.size(); ++i) x[i] += 2;  // never zero
        cpu::activate(Activation::identity, x.data(), y.data(), rows, cols, dropout);
        for (int64_t i = 0; i < x.size(); ++i) {
          const bool kept = dropout.keeps(static_cast<uint32_t>(i / cols), static_cast<uint32_t>(i % cols));
          ASSERT_EQ(y[i], kept ? x[i] * dropout.scale() : 0.0f) << cols << " columns, at " << i;
        }
      }
    }
  });
}

TEST(Dropout, EveryFieldChangesTheDraw) {
  const int64_t rows = 4, cols = 64;
  const Numbers x(rows * cols, 1);
  const auto draw = [&](const Dropout& dropout) {
    Numbers y(rows * cols, 2);
    cpu::activate(Activation::identity, x.data(), y.data(), rows, cols, dropout);
    return y;
  };
  const Dropout base = some_dropout();
  Dropout seed = base, high_seed = base, step = base, site = base, row = base;
  seed.seed ^= 1;
  high_seed.seed ^= uint64_t{1} << 40;
  ++step.step;
  ++site.site;
  ++row.first_row;
  EXPECT_TRUE(draw(base).same_bits(draw(base)));
  for (const Dropout& other : {seed, high_seed, step, site, row}) {
    EXPECT_FALSE(draw(base).same_bits(draw(other)));
  }
  // The next first_row shifts the matrix by a row.
  const Numbers shifted = draw(row), whole = draw(base);
  for (int64_t c = 0; c < cols; ++c) EXPECT_EQ(shifted[c] == 0, whole[cols + c] == 0);
}

TEST(Dropout, RateAndIndependence) {
  constexpr int64_t kRows = 500, kCols = 512, kCount = kRows * kCols;
  for (const float rate : {0.1f, 0.3f}) {
    const Dropout dropout = some_dropout(rate);
    Numbers x(kCount, 1);
    for (int64_t i = 0; i < kCount; ++i) x[i] = 1;
    cpu::activate(Activation::identity, x.data(), x.data(), kRows, kCols, dropout);
    double dropped = 0, beside = 0, below = 0, sum = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      dropped += x[i] == 0;
      beside += i + 1 < kCount && x[i] == 0 && x[i + 1] == 0;
      below += i + kCols < kCount && x[i] == 0 && x[i + kCols] == 0;
      sum += double{x[i]};
    }
    // Five standard deviations of a binomial count.
    const double p = double{rate}, pair = p * p, n = static_cast<double>(kCount);
    EXPECT_NEAR(dropped, n * p, 5 * std::sqrt(n * p * (1 - p)));
    EXPECT_NEAR(beside, n * pair, 10 * std::sqrt(n * pair));
    EXPECT_NEAR(below, (n - kCols) * pair, 10 * std::sqrt(n * pair));
    EXPECT_NEAR(sum / n, 1, 5 * std::sqrt(p / (1 - p) / n));
  }
}

TEST(Dropout, BackwardOfTheResidualBranch) {
  for_each_target([] {
    for (const float rate : {0.0f, 0.2f}) {
      for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
        const int64_t rows = 70, cols = 300;
        const Dropout dropout = some_dropout(rate);
        const Numbers dy(rows * cols, 3);
        std::vector<double> expected;
        for (int64_t i = 0; i < dy.size(); ++i) {
          expected.push_back(double{dy[i]} * reference::dropout_factor(dropout, i / cols, i % cols));
        }
        const auto result = [&] {
          Numbers dx(rows * cols, 4);
          cpu::dropout_backward(dy.data(), dx.data(), rows, cols, dropout, accumulate);
          return dx;
        };
        expect_near(result(), expected, 2e-7, 1e-7, accumulate, "dx");
        expect_same_for_any_threads(result);
      }
    }
  });
}

}  // namespace
}  // namespace qkv::kernels
