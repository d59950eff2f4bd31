// Products with weights in place.

#include <gtest/gtest.h>

#include <limits>

#include "qkv/base/error.h"
#include "qkv/kernels/cpu/kernels.h"
#include "qkv/kernels/cpu/matmul.h"
#include "qkv/kernels/cpu/products/onednn.h"
#include "qkv/kernels/cpu/products/quantized_rows.h"
#include "qkv/tensor/half.h"
#include "tests/kernels/rowwise.h"
#include "tests/support/random_blocks.h"

namespace qkv::kernels {
namespace {

// Weights in all dtypes, and their values in f32.
class Weights {
 public:
  Weights(int64_t rows, int64_t cols, uint64_t seed)
      : rows_(rows),
        cols_(cols),
        numbers_(rows * cols, seed),
        brains_(size()),
        halves_(size()),
        bytes_(size()),
        scales_(rows) {
    cpu::round_to_bf16(numbers_.data(), brains_.data(), rows * cols);
    cpu::round_to_f16(numbers_.data(), halves_.data(), rows * cols);
    cpu::quantize_rows(numbers_.data(), rows, cols, bytes_.data(), scales_.data());
  }

  WeightRows in(DType dtype) const {
    if (dtype == DType::bf16) return {brains_.data(), dtype, nullptr, rows_, cols_};
    if (dtype == DType::f16) return {halves_.data(), dtype, nullptr, rows_, cols_};
    if (dtype == DType::i8) return {bytes_.data(), dtype, scales_.data(), rows_, cols_};
    return {numbers_.data(), dtype, nullptr, rows_, cols_};
  }

  std::vector<float> widened(DType dtype) const {
    std::vector<float> wide(size());
    cpu::widen_rows(in(dtype), wide.data());
    return wide;
  }

 private:
  size_t size() const { return static_cast<size_t>(rows_ * cols_); }

  int64_t rows_, cols_;
  Numbers numbers_;
  std::vector<BFloat16> brains_;
  std::vector<Float16> halves_;
  std::vector<int8_t> bytes_;
  std::vector<float> scales_;
};

constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f16, DType::i8};

// The inputs that an int8 product uses: rounded to 255 steps of the range of the row and zero.
std::vector<double> as_multiplied(const Numbers& x, int64_t rows, int64_t cols, int64_t stride, DType dtype) {
  std::vector<double> result;
  for (int64_t r = 0; r < rows; ++r) {
    float low = 0, high = 0;
    for (int64_t c = 0; c < cols; ++c) {
      low = std::min(low, x[r * stride + c]);
      high = std::max(high, x[r * stride + c]);
    }
    const float inverse = 255 / (high - low);
    const float zero = std::nearbyint(-low * inverse);
    for (int64_t c = 0; c < cols; ++c) {
      const float number = x[r * stride + c];
      const float steps = std::clamp(std::nearbyint(number * inverse) + zero, 0.0f, 255.0f);
      result.push_back(dtype == DType::i8 ? double{steps - zero} * ((high - low) / 255) : number);
    }
  }
  return result;
}

struct Size {
  int64_t m, k, n;
};

// Row counts around the tiles (3 and 6, and 16 and 32 of AMX), the limits of methods (12 for floats, 20 for
// int8), the summation block (96) and a part (192); inner sizes around vectors and the block depth (512);
// columns around the tiles (8, 16) and a part (64).
const std::vector<Size> kSizes{{1, 1, 1},     {1, 7, 3},     {2, 16, 16},   {3, 17, 9},      {4, 63, 8},
                               {5, 65, 65},   {6, 130, 63},  {9, 31, 130},  {10, 64, 64},    {11, 200, 5},
                               {47, 33, 65},  {48, 128, 12}, {49, 96, 128}, {97, 48, 100},   {1, 513, 70},
                               {7, 1025, 33}, {12, 600, 21}, {50, 1100, 9}, {145, 512, 129}, {2, 2048, 7},
                               {8, 64, 16},   {17, 128, 49}, {33, 191, 31}, {193, 65, 81},   {230, 520, 40},
                               {19, 530, 17}, {20, 515, 33}, {21, 1039, 66}};

void expect_products(const Size& size, DType dtype, Accumulate accumulate) {
  const auto [m, k, n] = size;
  const int64_t a_stride = k + 3, c_stride = n + 5;
  const Numbers a(m * a_stride, 1), bias(n, 2);
  const Weights first(n / 2, k, 3), second(n - n / 2, k, 4);
  const WeightRows blocks[] = {first.in(dtype), second.in(dtype)};
  const cpu::WeightView view(n > 1 ? std::span<const WeightRows>(blocks)
                                   : std::span<const WeightRows>(blocks + 1, 1));
  ASSERT_EQ(view.rows(), k);
  ASSERT_EQ(view.cols(), n);
  Numbers c(m * c_stride, 5);
  cpu::matmul({a.data(), m, k, a_stride}, view, bias.data(), {c.data(), m, n, c_stride}, accumulate);
  const std::vector<double> x = as_multiplied(a, m, k, a_stride, dtype);
  std::vector<float> w = first.widened(dtype);
  const std::vector<float> below = second.widened(dtype);
  w.insert(w.end(), below.begin(), below.end());
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = bias[j] + (accumulate == Accumulate::yes ? c.before(i * c_stride + j) : 0.0f);
      double magnitude = std::abs(sum);
      for (int64_t l = 0; l < k; ++l) {
        const double product = x[static_cast<size_t>(i * k + l)] * w[static_cast<size_t>(j * k + l)];
        sum += product;
        magnitude += std::abs(product);
      }
      // Two units in the last place of the sum of magnitudes.
      ASSERT_NEAR(c[i * c_stride + j], sum, 2 * 0x1p-23 * magnitude)
          << name_of(dtype) << ' ' << m << ' ' << k << ' ' << n << " at " << i << ',' << j;
    }
    for (int64_t j = n; j < c_stride && i * c_stride + j < c.size(); ++j)
      ASSERT_EQ(c[i * c_stride + j], c.before(i * c_stride + j)) << "past the row";
  }
  EXPECT_TRUE(c.surroundings_untouched());
}

// The inputs of a product with weights in blocks: 127 steps of the largest of 32 numbers, in each direction.
std::vector<double> rounded_by_groups(const Numbers& x, int64_t count) {
  std::vector<double> rounded;
  for (int64_t first = 0; first < count; first += 32) {
    float largest = 0;
    for (int64_t i = 0; i < 32; ++i) largest = std::max(largest, std::abs(x[first + i]));
    for (int64_t i = 0; i < 32; ++i)
      rounded.push_back(std::nearbyint(x[first + i] * (127 / largest)) * double{largest / 127});
  }
  return rounded;
}

// The offset of each number.
std::vector<float> offsets_of(DType dtype, const std::vector<uint8_t>& blocks) {
  const DTypeLayout layout = layout_of(dtype);
  std::vector<float> offsets;
  for (size_t at = 0; at < blocks.size(); at += layout.bytes) {
    NumberGroup groups[16];
    read_block(dtype, reinterpret_cast<const std::byte*>(blocks.data() + at), groups);
    for (int64_t i = 0; i < layout.block; ++i) offsets.push_back(groups[i / group_of(dtype)].offset);
  }
  return offsets;
}

void expect_product_of_blocks(DType dtype, const Size& size, Accumulate accumulate) {
  const auto [m, k, n] = size;
  const std::vector<uint8_t> blocks = testing::random_blocks(dtype, n * k, 7);
  const std::vector<float> offsets = offsets_of(dtype, blocks);
  const Weights second(9, k, 4);
  const WeightRows both[] = {{blocks.data(), dtype, nullptr, n, k}, second.in(DType::f16)};
  std::vector<float> w(static_cast<size_t>(n * k));
  cpu::widen_rows(both[0], w.data());
  const std::vector<float> halves = second.widened(DType::f16);
  w.insert(w.end(), halves.begin(), halves.end());
  const Numbers x(m * k, 1), bias(n + 9, 2);
  const std::vector<double> rounded = rounded_by_groups(x, m * k);
  Numbers c(m * (n + 9), 5);
  cpu::matmul({x.data(), m, k, k}, cpu::WeightView(both), bias.data(), {c.data(), m, n + 9, n + 9},
              accumulate);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n + 9; ++j) {
      double sum = bias[j] + (accumulate == Accumulate::yes ? c.before(i * (n + 9) + j) : 0.0f);
      double magnitude = std::abs(sum);
      for (int64_t l = 0; l < k; ++l) {
        const auto at = static_cast<size_t>(j * k + l);
        const double input = j < n ? rounded[static_cast<size_t>(i * k + l)] : x[i * k + l];
        sum += input * w[at];
        magnitude += std::abs(input) * (std::abs(w[at]) + (j < n ? 2 * std::abs(offsets[at]) : 0));
      }
      // Two units in the last place of the sum of magnitudes.
      ASSERT_NEAR(c[i * (n + 9) + j], sum, 2 * 0x1p-23 * magnitude)
          << name_of(dtype) << ' ' << m << ' ' << k << ' ' << n << " at " << i << ',' << j;
    }
  }
  EXPECT_TRUE(c.surroundings_untouched());
}

// Also beside weights of another dtype.
TEST(GemmNt, BlocksAgreeWithDoublePrecision) {
  for_each_target([] {
    for (const DType dtype : kBlockDTypes) {
      for (const Size& size : {Size{1, 256, 5}, Size{2, 1536, 16}, Size{3, 768, 70}, Size{13, 512, 17}}) {
        expect_product_of_blocks(dtype, size, Accumulate::yes);
        expect_product_of_blocks(dtype, size, Accumulate::no);
      }
    }
    for (const DType dtype : {DType::q8_0, DType::q4_0, DType::q5_1})
      expect_product_of_blocks(dtype, {5, 608, 33}, Accumulate::no);
  });
}

TEST(GemmNt, BlocksGiveARowTheSameBitsInAnyBatch) {
  for_each_target([] {
    const int64_t most = 200, k = 1280, n = 67;
    const Numbers a(most * k, 1), bias(n, 2);
    const int before = threads();
    for (const DType dtype : kBlockDTypes) {
      const std::vector<uint8_t> blocks = testing::random_blocks(dtype, n * k, 7);
      const WeightRows weights{blocks.data(), dtype, nullptr, n, k};
      const cpu::WeightView view({&weights, 1});
      Numbers whole(most * n, 4);
      set_threads(1);
      cpu::matmul({a.data(), most, k, k}, view, bias.data(), {whole.data(), most, n, n}, Accumulate::no);
      set_threads(2);
      for (const int64_t rows : {1, 2, 7, 24, 110}) {
        Numbers part(rows * n, 4);
        const int64_t first = most - rows;
        cpu::matmul({a.data() + first * k, rows, k, k}, view, bias.data(), {part.data(), rows, n, n},
                    Accumulate::no);
        for (int64_t i = 0; i < rows * n; ++i) ASSERT_EQ(part[i], whole[first * n + i]) << name_of(dtype);
      }
    }
    set_threads(before);
  });
}

// Sums within a group are exact, and what follows has one order: only fused multiplications, which SSE4 and
// scalar code lack, round differently.
TEST(GemmNt, BlocksGiveTheSameBitsOnSetsThatRoundAlike) {
  const int64_t m = 11, k = 1536, n = 37;
  const Numbers x(m * k, 1), bias(n, 2);
  for (const DType dtype : kBlockDTypes) {
    // The largest integers of both signs, too.
    std::vector<uint8_t> blocks = testing::random_blocks(dtype, n * k, 7);
    const WeightRows weights{blocks.data(), dtype, nullptr, n, k};
    std::optional<Numbers> fused, separate;
    for_each_target([&] {
      Numbers y(m * n, 5);
      cpu::matmul({x.data(), m, k, k}, cpu::WeightView({&weights, 1}), bias.data(), {y.data(), m, n, n},
                  Accumulate::no);
#if HWY_ARCH_X86
      const bool fuses = hwy::SupportedTargets() <= HWY_AVX2;
#else
      const bool fuses = true;
#endif
      std::optional<Numbers>& first = fuses ? fused : separate;
      if (!first) first.emplace(y);
      EXPECT_TRUE(y.same_bits(*first)) << name_of(dtype);
    });
  }
}

TEST(GemmNt, BlocksKeepInputsThatAreNotFinite) {
  for_each_target([] {
    const std::vector<uint8_t> blocks = testing::random_blocks(DType::q4_0, 3 * 64, 7);
    const WeightRows weights{blocks.data(), DType::q4_0, nullptr, 3, 64};
    for (const float flaw : {std::numeric_limits<float>::quiet_NaN(), -HUGE_VALF}) {
      std::vector<float> x(128, 1.0f);
      x[70] = flaw;  // in the second of two rows
      std::vector<float> y(6);
      cpu::matmul({x.data(), 2, 64, 64}, cpu::WeightView({&weights, 1}), nullptr, {y.data(), 2, 3, 3},
                  Accumulate::no);
      for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isfinite(y[i]), i < 3);
    }
  });
}

TEST(GemmNt, AgreesWithDoublePrecision) {
  for_each_target([] {
    for (const Size& size : kSizes) {
      for (const DType dtype : kDTypes) {
        for (const auto accumulate : {Accumulate::no, Accumulate::yes})
          expect_products(size, dtype, accumulate);
      }
    }
  });
}

TEST(GemmNt, RowsAreIndependentAndThreadInvariant) {
  for_each_target([] {
    const int64_t most = 210, k = 700, n = 203;
    const Numbers a(most * k, 1), bias(n, 2);
    const Weights weights(n, k, 3);
    const int before = threads();
    for (const DType dtype : kDTypes) {
      const WeightRows rows = weights.in(dtype);
      const cpu::WeightView view({&rows, 1});
      Numbers whole(most * n, 4);
      cpu::matmul({a.data(), most, k, k}, view, bias.data(), {whole.data(), most, n, n}, Accumulate::no);
      for (int64_t count = 1; count <= most; count += count < 14 ? 1 : 17) {
        set_threads(1 + static_cast<int>(count % 4));
        const int64_t first = (most - count) / 2;
        Numbers part(count * n, 5);
        cpu::matmul({a.data() + first * k, count, k, k}, view, bias.data(), {part.data(), count, n, n},
                    Accumulate::no);
        ASSERT_EQ(std::memcmp(part.data(), whole.data() + first * n, static_cast<size_t>(count * n) * 4), 0)
            << name_of(dtype) << ", " << count << " rows";
      }
    }
    set_threads(before);
  });
}

// With every pattern of bits but NaN: subnormal numbers and infinities too.
TEST(GemmNt, SixteenBitWeightsGiveTheBitsOfTheirF32) {
  constexpr int64_t kCols = 509, kRows = 65536 / kCols;
  std::vector<Float16> halves;
  std::vector<BFloat16> brains;
  for (uint32_t bits = 0; bits < kRows * kCols; ++bits) {
    const auto one = static_cast<uint16_t>(bits * 40503);  // odd: a permutation
    halves.push_back({std::isnan(widened(Float16{one})) ? uint16_t{0} : one});
    brains.push_back({std::isnan(widened(BFloat16{one})) ? uint16_t{0} : one});
  }
  const auto expect_same = [&]<class Half>(const std::vector<Half>& narrow) {
    std::vector<float> wide;
    for (const Half half : narrow) wide.push_back(widened(half));
    const WeightRows rows{narrow.data(), dtype_of<Half>, nullptr, kRows, kCols},
        same{wide.data(), DType::f32, nullptr, kRows, kCols};
    for (const int64_t m : {1, 5, 12, 13, 40}) {
      const Numbers x(m * kCols, 1);
      std::vector<float> found(static_cast<size_t>(m * kRows)), expected = found;
      cpu::matmul({x.data(), m, kCols, kCols}, cpu::WeightView({&rows, 1}), nullptr,
                  {found.data(), m, kRows, kRows}, Accumulate::no);
      cpu::matmul({x.data(), m, kCols, kCols}, cpu::WeightView({&same, 1}), nullptr,
                  {expected.data(), m, kRows, kRows}, Accumulate::no);
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0)
          << name_of(rows.dtype) << ", " << m << " rows";
    }
  };
  for_each_target([&] {
    expect_same(halves);
    expect_same(brains);
  });
}

// Integers are summed exactly; other numbers in an order independent of the vector width, with fused
// multiply-adds.
TEST(GemmNt, SameBitsWithAllInstructionSets) {
  const int64_t k = 1333, n = 70;
  const Weights weights(n, k, 3);
  for (const DType dtype : kDTypes) {
    for (const int64_t m : {1, 5, 13, 40}) {
      const Numbers a(m * k, 1);
      const WeightRows rows = weights.in(dtype);
      std::vector<std::vector<float>> results;
      for_each_target([&] {
        const bool rounds_twice = (hwy::SupportedTargets() & (HWY_SCALAR | HWY_EMU128 | HWY_SSE4)) != 0;
        if (dtype != DType::i8 && rounds_twice) return;
        auto& c = results.emplace_back(static_cast<size_t>(m * n));
        cpu::matmul({a.data(), m, k, k}, cpu::WeightView({&rows, 1}), nullptr, {c.data(), m, n, n},
                    Accumulate::no);
        EXPECT_TRUE(c == results.front()) << name_of(dtype) << ", " << m << " rows";
      });
    }
  }
}

// To the bit, by whatever instructions: VNNI and AMX are not among Highway's targets.
TEST(GemmNt, Int8IsExactUpToTwoRoundings) {
  const int64_t k = 333, n = 45;
  const Weights weights(n, k, 3);
  const WeightRows rows = weights.in(DType::i8);
  const auto* const w = static_cast<const int8_t*>(rows.data);
  for (const int64_t m : {1, 5, 13, 120}) {
    const Numbers a(m * k, 1);
    const Matrix left{a.data(), m, k, k};
    for_each_target([&] {
      const QuantizedRows q = quantize_inputs(f32(left), RowLayout::bytes);
      std::vector<float> c(static_cast<size_t>(m * n));
      cpu::matmul(left, cpu::WeightView({&rows, 1}), nullptr, {c.data(), m, n, n}, Accumulate::no);
      for (int64_t i = 0; i < m * n; ++i) {
        const int64_t row = i / n, col = i % n;
        int64_t sum = 0;
        for (int64_t j = 0; j < k; ++j)
          sum += int64_t{q.numbers[row * q.stride + j] - q.zeros[row]} * w[col * k + j];
        const float expected = static_cast<float>(sum) * q.scales[row] * rows.scales[col];
        ASSERT_EQ(c[static_cast<size_t>(i)], expected) << m << " rows, at " << row << ", " << col;
      }
    });
  }
}

TEST(GemmNt, Int8HandlesTheLargestSumsAndOneSidedRows) {
  const int64_t k = kMaxInt8Cols;
  const std::vector<int8_t> bytes(static_cast<size_t>(2 * k), int8_t{-127});
  const std::vector<float> scales{1, 0.5f};
  const WeightRows rows{bytes.data(), DType::i8, scales.data(), 2, k};
  const cpu::WeightView view({&rows, 1});
  // Rows of ones, minus ones, zeros, and numbers so small that 1 / scale overflows.
  std::vector<float> a(static_cast<size_t>(4 * k)), c(8);
  std::fill_n(a.begin(), k, 1.0f);
  std::fill_n(a.begin() + k, k, -1.0f);
  std::fill_n(a.begin() + 3 * k, k, 1e-38f);
  cpu::matmul({a.data(), 4, k, k}, view, nullptr, {c.data(), 4, 2, 2}, Accumulate::no);
  const float sum = -127.0f * static_cast<float>(k);
  EXPECT_NEAR(c[0], sum, 1);
  EXPECT_NEAR(c[1], sum / 2, 1);
  EXPECT_NEAR(c[2], -sum, 1);
  EXPECT_NEAR(c[3], -sum / 2, 1);
  EXPECT_EQ(c[4], 0.0f);
  EXPECT_EQ(c[6], 0.0f);
}

TEST(GemmNt, PropagatesNonFiniteValues) {
  const int64_t k = 40, n = 3;
  const Weights weights(n, k, 1);
  for (const DType dtype : kDTypes) {
    const WeightRows rows = weights.in(dtype);
    const cpu::WeightView view({&rows, 1});
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Numbers a(2 * k, 2);
      a[k + 5] = bad;
      std::vector<float> c(2 * n);
      cpu::matmul({a.data(), 2, k, k}, view, nullptr, {c.data(), 2, n, n}, Accumulate::no);
      for (int64_t j = 0; j < n; ++j) {
        EXPECT_TRUE(std::isfinite(c[static_cast<size_t>(j)])) << name_of(dtype);
        EXPECT_FALSE(std::isfinite(c[static_cast<size_t>(n + j)])) << name_of(dtype) << ' ' << bad;
      }
    }
  }
}

TEST(GemmNt, CompilesNothing) {
  if (!onednn::runs_on_slabs()) GTEST_SKIP() << "needs AVX-512";
  const Numbers a(5 * 8, 1);
  const Weights weights(12, 8, 2);
  const uint64_t compiled = cpu::compiled_products();
  for (const DType dtype : kDTypes) {
    const WeightRows rows = weights.in(dtype);
    const cpu::WeightView view({&rows, 1});
    std::vector<float> c(60);
    cpu::matmul({a.data(), 5, 8, 8}, view, nullptr, {c.data(), 5, 12, 12}, Accumulate::no);
  }
  EXPECT_EQ(cpu::compiled_products(), compiled);
}

}  // namespace
}  // namespace qkv::kernels
