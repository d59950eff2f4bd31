#include <gtest/gtest.h>
#include <sys/time.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "qkv/base/parallel.h"
#include "qkv/base/philox.h"
#include "qkv/kernels/cpu/matmul.h"
#include "qkv/kernels/cpu/products/onednn.h"
#include "tests/kernels/rowwise.h"

namespace {

using namespace qkv::kernels;
using qkv::DType;

std::vector<float> random_numbers(int64_t count, uint64_t seed) {
  qkv::RandomStream random(seed);
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& x : numbers) x = 2 * random.uniform() - 1;
  return numbers;
}

// The values that a product with these operands reads: nearest, ties to even.
std::vector<float> rounded(std::vector<float> numbers, DType operands) {
  for (float& x : numbers) {
    if (operands != DType::bf16) break;
    const auto bits = std::bit_cast<uint32_t>(x);
    x = std::bit_cast<float>((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000u);
  }
  return numbers;
}

constexpr DType kOperands[] = {DType::f32, DType::bf16};

struct Size {
  int64_t m, k, n;
};
const std::vector<Size> kSizes{{1, 1, 1},      {1, 7, 3},      {2, 16, 16},    {5, 24, 40},
                               {17, 64, 1000}, {63, 33, 65},   {64, 32, 64},   {65, 32, 512},
                               {100, 48, 513}, {200, 128, 96}, {129, 300, 31}, {3, 40, 2100}};

// Sums of at most 300 products below 1 in magnitude: float's error is far smaller.
constexpr float kTolerance = 2e-5f;

class Products : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Matmul, Products, ::testing::ValuesIn(kOperands),
                         [](const auto& tested) { return std::string(qkv::name_of(tested.param)); });

TEST_P(Products, PackedTransposedWithBiasAndAccumulation) {
  for_each_target([] {
    for (const auto& [m, k, n] : kSizes) {
      const auto a = random_numbers(m * (k + 3), 1), w = random_numbers(n * k, 2),
                 bias = random_numbers(n, 3);
      const auto read_a = rounded(a, GetParam()), read_w = rounded(w, GetParam());
      const Matrix blocks[] = {{w.data(), n / 2, k, k}, {w.data() + n / 2 * k, n - n / 2, k, k}};
      const auto packed = cpu::PackedMatrix::transposed(
          n > 1 ? std::span<const Matrix>(blocks) : std::span<const Matrix>(blocks + 1, 1), GetParam());
      ASSERT_EQ(packed.rows(), k);
      ASSERT_EQ(packed.cols(), n);
      for (const auto accumulate : {Accumulate::no, Accumulate::yes}) {
        const auto before = random_numbers(m * (n + 5), 4);
        auto c = before;
        cpu::matmul({a.data(), m, k, k + 3}, packed, bias.data(), {c.data(), m, n, n + 5}, accumulate);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            double sum = bias[j] + (accumulate == Accumulate::yes ? before[i * (n + 5) + j] : 0.0f);
            for (int64_t l = 0; l < k; ++l) sum += double{read_a[i * (k + 3) + l]} * read_w[j * k + l];
            ASSERT_NEAR(c[i * (n + 5) + j], sum, kTolerance)
                << m << ' ' << k << ' ' << n << " at " << i << ',' << j;
          }
          for (int64_t j = n; j < n + 5; ++j)
            ASSERT_EQ(c[i * (n + 5) + j], before[i * (n + 5) + j]) << "past the row";
        }
      }
    }
  });
}

TEST_P(Products, PackedPlain) {
  for_each_target([] {
    for (const auto& [m, k, n] : kSizes) {
      const auto a = random_numbers(m * k, 1), w = random_numbers(k * n, 2);
      const auto read_a = rounded(a, GetParam()), read_w = rounded(w, GetParam());
      const Matrix blocks[] = {{w.data(), k / 3, n, n}, {w.data() + k / 3 * n, k - k / 3, n, n}};
      const auto packed = cpu::PackedMatrix::plain(blocks, GetParam());
      ASSERT_EQ(packed.rows(), k);
      ASSERT_EQ(packed.cols(), n);
      std::vector<float> c(static_cast<size_t>(m * n));
      cpu::matmul({a.data(), m, k, k}, packed, nullptr, {c.data(), m, n, n}, Accumulate::no);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (int64_t l = 0; l < k; ++l) sum += double{read_a[i * k + l]} * read_w[l * n + j];
          ASSERT_NEAR(c[i * n + j], sum, kTolerance);
        }
      }
    }
  });
}

TEST_P(Products, EmptyInnerDimensionGivesTheBias) {
  const auto none = random_numbers(1, 1), bias = random_numbers(40, 2), before = random_numbers(3 * 40, 3);
  const Matrix weights{none.data(), 40, 0, 0};
  const auto packed = cpu::PackedMatrix::transposed({&weights, 1}, GetParam());
  for (const bool add : {false, true}) {
    for (const float* b : {static_cast<const float*>(nullptr), bias.data()}) {
      auto c = before, gradient = before;
      const auto accumulate = add ? Accumulate::yes : Accumulate::no;
      cpu::matmul({none.data(), 3, 0, 0}, packed, b, {c.data(), 3, 40, 40}, accumulate);
      cpu::matmul_transposed_a({none.data(), 0, 3, 3}, {none.data(), 0, 40, 40}, {gradient.data(), 3, 40, 40},
                               accumulate, GetParam());
      for (int64_t i = 0; i < 3 * 40; ++i) {
        EXPECT_EQ(c[i], (add ? before[i] : 0.0f) + (b != nullptr ? b[i % 40] : 0.0f)) << i;
        EXPECT_EQ(gradient[i], add ? before[i] : 0.0f) << i;
      }
    }
  }
}

// Transposed packing equals packing of the transpose, for all instruction sets.
TEST_P(Products, PackingTransposesExactly) {
  for_each_target([] {
    for (const auto& [m, k, n] : kSizes) {
      const auto a = random_numbers(m * k, 1), w = random_numbers(n * k, 2);
      std::vector<float> transposed(w.size());
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < k; ++j) transposed[j * n + i] = w[i * k + j];
      }
      const Matrix rows{w.data(), n, k, k}, cols{transposed.data(), k, n, n};
      std::vector<float> c(static_cast<size_t>(m * n)), expected = c;
      cpu::matmul({a.data(), m, k, k}, cpu::PackedMatrix::transposed({&rows, 1}, GetParam()), nullptr,
                  {c.data(), m, n, n}, Accumulate::no);
      cpu::matmul({a.data(), m, k, k}, cpu::PackedMatrix::plain({&cols, 1}, GetParam()), nullptr,
                  {expected.data(), m, n, n}, Accumulate::no);
      ASSERT_EQ(std::memcmp(c.data(), expected.data(), c.size() * sizeof(float)), 0)
          << m << ' ' << k << ' ' << n;
    }
  });
}

TEST_P(Products, TransposedA) {
  for (const auto& [rows, m, n] : std::vector<Size>{{1, 3, 5},
                                                    {31, 16, 16},
                                                    {32, 20, 8},
                                                    {33, 7, 70},
                                                    {600, 130, 520},
                                                    {1100, 40, 24},
                                                    {513, 65, 2100}}) {
    // In the least accurate order, one term after the other, the rounding error grows with their number.
    const float tolerance = 2e-5f + 6e-8f * static_cast<float>(rows);
    const auto a = random_numbers(rows * (m + 2), 1), b = random_numbers(rows * (n + 1), 2);
    const auto read_a = rounded(a, GetParam()), read_b = rounded(b, GetParam());
    for (const auto accumulate : {Accumulate::no, Accumulate::yes}) {
      const auto before = random_numbers(m * n, 3);
      auto c = before;
      cpu::matmul_transposed_a({a.data(), rows, m, m + 2}, {b.data(), rows, n, n + 1}, {c.data(), m, n, n},
                               accumulate, GetParam());
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = accumulate == Accumulate::yes ? before[i * n + j] : 0.0f;
          for (int64_t l = 0; l < rows; ++l) sum += double{read_a[l * (m + 2) + i]} * read_b[l * (n + 1) + j];
          ASSERT_NEAR(c[i * n + j], sum, tolerance) << rows << ' ' << m << ' ' << n;
        }
      }
    }
  }
}

// The guarantee that batching, caches and threads rely on, checked on this machine.
TEST_P(Products, RowsAreIndependent) {
  const int64_t k = 192, n = 1100, most = 300;
  const auto a = random_numbers(most * k, 1), w = random_numbers(n * k, 2), bias = random_numbers(n, 3);
  const Matrix block{w.data(), n, k, k};
  const auto packed = cpu::PackedMatrix::transposed({&block, 1}, GetParam());
  std::vector<float> whole(static_cast<size_t>(most * n));
  cpu::matmul({a.data(), most, k, k}, packed, bias.data(), {whole.data(), most, n, n}, Accumulate::no);
  const int before = qkv::threads();
  for (int64_t rows = 1; rows <= most; rows += rows < 70 ? 1 : 23) {
    qkv::set_threads(1 + static_cast<int>(rows % 3));
    const int64_t first = (most - rows) / 2;
    std::vector<float> part(static_cast<size_t>(rows * n));
    cpu::matmul({a.data() + first * k, rows, k, k}, packed, bias.data(), {part.data(), rows, n, n},
                Accumulate::no);
    ASSERT_EQ(std::memcmp(part.data(), whole.data() + first * n, part.size() * sizeof(float)), 0)
        << rows << " rows";
  }
  qkv::set_threads(before);
}

TEST_P(Products, GradientsAreThreadInvariant) {
  const int64_t rows = 777, m = 300, n = 600;
  const auto a = random_numbers(rows * m, 1), b = random_numbers(rows * n, 2);
  std::vector<std::vector<float>> results;
  const int before = qkv::threads();
  for (const int threads : {1, 2, 3, 4}) {
    qkv::set_threads(threads);
    auto& c = results.emplace_back(static_cast<size_t>(m * n));
    cpu::matmul_transposed_a({a.data(), rows, m, m}, {b.data(), rows, n, n}, {c.data(), m, n, n},
                             Accumulate::no, GetParam());
    EXPECT_EQ(c, results.front()) << threads << " threads";
  }
  qkv::set_threads(before);
}

// A NaN or infinity in a row shows in that row alone, and the largest numbers become infinite.
TEST_P(Products, NonFiniteValuesStayInTheirRow) {
  constexpr int64_t m = 5, k = 33, n = 70;
  auto a = random_numbers(m * k, 1);
  // The payload of this NaN is in its low bits only.
  a[1 * k + 32] = std::bit_cast<float>(0x7F800001u);
  a[3 * k + 7] = -std::numeric_limits<float>::infinity();
  a[4 * k] = std::numeric_limits<float>::max();
  std::vector<float> w(static_cast<size_t>(k * n), 1.0f), c(static_cast<size_t>(m * n));
  const Matrix block{w.data(), n, k, k};
  for_each_target([&] {
    cpu::matmul({a.data(), m, k, k}, cpu::PackedMatrix::transposed({&block, 1}, GetParam()), nullptr,
                {c.data(), m, n, n}, Accumulate::no);
    for (int64_t j = 0; j < n; ++j) {
      EXPECT_TRUE(std::isfinite(c[j]));
      EXPECT_TRUE(std::isnan(c[n + j]));
      EXPECT_TRUE(std::isfinite(c[2 * n + j]));
      EXPECT_EQ(c[3 * n + j], -std::numeric_limits<float>::infinity());
      EXPECT_EQ(std::isinf(c[4 * n + j]), GetParam() == DType::bf16);
    }
    std::vector<float> gradient(static_cast<size_t>(k * n));
    const std::vector<float> dy(static_cast<size_t>(m * n), 1.0f);
    cpu::matmul_transposed_a({a.data(), m, k, k}, {dy.data(), m, n, n}, {gradient.data(), k, n, n},
                             Accumulate::no, GetParam());
    for (int64_t i = 0; i < k; ++i) {
      EXPECT_EQ(std::isnan(gradient[i * n]), i == 32) << i;
      EXPECT_EQ(std::isinf(gradient[i * n]), i == 7 || (i == 0 && GetParam() == DType::bf16)) << i;
    }
  });
}

// Without SignalsWait this crashed within seconds (oneDNN 2.6.3).
TEST(Matmul, SurvivesSignals) {
  if (!onednn::runs_on_slabs()) GTEST_SKIP() << "needs AVX-512";
  static std::atomic<int> signals = 0;
  const auto handler_before = std::signal(SIGALRM, [](int) { ++signals; });
  const itimerval often{{0, 300}, {0, 300}}, never{};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  const int64_t m = 700, k = 256, n = 512;
  const auto a = random_numbers(m * k, 1), w = random_numbers(n * k, 2);
  const Matrix block{w.data(), n, k, k};
  const auto packed = cpu::PackedMatrix::transposed({&block, 1});
  std::vector<float> first, c(static_cast<size_t>(m * n)), gradient(static_cast<size_t>(n * k)),
      first_gradient;
  for (int round = 0; round < 200; ++round) {
    cpu::matmul({a.data(), m, k, k}, packed, nullptr, {c.data(), m, n, n}, Accumulate::no);
    cpu::matmul_transposed_a({c.data(), m, n, n}, {a.data(), m, k, k}, {gradient.data(), n, k, k},
                             Accumulate::no);
    if (round == 0) {
      first = c;
      first_gradient = gradient;
    }
    ASSERT_EQ(c, first) << "round " << round;
    ASSERT_EQ(gradient, first_gradient) << "round " << round;
  }
  ::setitimer(ITIMER_REAL, &never, nullptr);
  std::signal(SIGALRM, handler_before);
  EXPECT_GT(signals, 0);
}

}  // namespace
