
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "qkv/kernels/cpu/kernels.h"
#include "qkv/kernels/reference/weights.h"
#include "qkv/tensor/half.h"
#include "tests/kernels/rowwise.h"

namespace qkv::kernels {
namespace {

BFloat16 rounded(float number) {
  BFloat16 result;
  cpu::round_to_bf16(&number, &result, 1);
  return result;
}

TEST(WeightRows, BFloat16RoundsToNearestEven) {
  // 1 + 2^-8 lies between 1 and 1 + 2^-7, and 1 + 3 * 2^-8 between that and 1 + 2^-6.
  EXPECT_EQ(widened(rounded(1.0f + 0x1p-8f)), 1.0f);
  EXPECT_EQ(widened(rounded(1.0f + 3 * 0x1p-8f)), 1.0f + 0x1p-6f);
  EXPECT_EQ(widened(rounded(1.0f + 0x1p-8f + 0x1p-20f)), 1.0f + 0x1p-7f);
  EXPECT_EQ(widened(rounded(-3.140625f)), -3.140625f);
  EXPECT_EQ(widened(rounded(std::numeric_limits<float>::max())), std::numeric_limits<float>::infinity());
  EXPECT_EQ(widened(rounded(-std::numeric_limits<float>::infinity())),
            -std::numeric_limits<float>::infinity());
  // A NaN whose payload is in the lower half only.
  EXPECT_TRUE(std::isnan(widened(rounded(std::bit_cast<float>(0x7F800001u)))));
  const Numbers many(100001, 1);
  std::vector<BFloat16> all(static_cast<size_t>(many.size()));
  cpu::round_to_bf16(many.data(), all.data(), many.size());
  for (int64_t i = 0; i < many.size(); ++i) {
    ASSERT_LE(std::abs(widened(all[static_cast<size_t>(i)]) - many[i]), 0x1p-8f * std::abs(many[i])) << i;
  }
}

TEST(WeightRows, Int8ErrorIsAtMostHalfAStep) {
  constexpr int64_t kRows = 300, kCols = 333;
  Numbers weights(kRows * kCols, 2);
  for (int64_t c = 0; c < kCols; ++c) weights[7 * kCols + c] = 0;
  for (int64_t c = 0; c < kCols; ++c) weights[8 * kCols + c] *= 1e-30f;
  std::vector<int8_t> numbers(static_cast<size_t>(weights.size()));
  std::vector<float> scales(kRows);
  cpu::quantize_rows(weights.data(), kRows, kCols, numbers.data(), scales.data());
  std::vector<float> wide(numbers.size());
  cpu::widen_rows({numbers.data(), DType::i8, scales.data(), kRows, kCols}, wide.data());
  for (int64_t row = 0; row < kRows; ++row) {
    float largest = 0;
    int most = 0;
    for (int64_t c = 0; c < kCols; ++c) {
      const auto i = static_cast<size_t>(row * kCols + c);
      largest = std::max(largest, std::abs(weights[row * kCols + c]));
      most = std::max(most, std::abs(int{numbers[i]}));
      ASSERT_LE(std::abs(wide[i] - weights[row * kCols + c]), 0.501f * scales[row]) << row << ", " << c;
    }
    EXPECT_EQ(scales[static_cast<size_t>(row)], largest / 127);
    EXPECT_EQ(most, row == 7 ? 0 : 127) << "row " << row;
  }
}

TEST(WeightRows, WideningF32AndBFloat16IsExact) {
  constexpr int64_t kRows = 5, kCols = 77;
  const Numbers weights(kRows * kCols, 3);
  std::vector<float> wide(static_cast<size_t>(weights.size()));
  cpu::widen_rows({weights.data(), DType::f32, nullptr, kRows, kCols}, wide.data());
  EXPECT_EQ(std::memcmp(wide.data(), weights.data(), wide.size() * sizeof(float)), 0);
  std::vector<BFloat16> halves(wide.size());
  cpu::round_to_bf16(weights.data(), halves.data(), weights.size());
  cpu::widen_rows({halves.data(), DType::bf16, nullptr, kRows, kCols}, wide.data());
  for (size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(wide[i], widened(halves[i]));
}

TEST(WeightRows, BackendsRoundToTheSameF16AndWidenItExactly) {
  std::vector<float> numbers;
  RandomStream random(4);
  for (int i = 0; i < 100000; ++i) numbers.push_back(std::bit_cast<float>(random.next()));
  for (int i = -60; i < 60; ++i)
    numbers.insert(numbers.end(),
                   {std::ldexp(1.0f, i), std::ldexp(-1.25f, i), 65504.0f + static_cast<float>(i)});
  const auto count = std::ssize(numbers);
  std::vector<Float16> found(numbers.size()), expected = found;
  cpu::round_to_f16(numbers.data(), found.data(), count);
  reference::round_to_f16(numbers.data(), expected.data(), count);
  EXPECT_TRUE(found == expected);
  std::vector<float> wide(numbers.size()), wide_reference = wide;
  const WeightRows rows{found.data(), DType::f16, nullptr, 1, count};
  cpu::widen_rows(rows, wide.data());
  reference::widen_rows(rows, wide_reference.data());
  for (size_t i = 0; i < wide.size(); ++i) {
    ASSERT_TRUE(wide[i] == wide_reference[i] || (std::isnan(wide[i]) && std::isnan(wide_reference[i]))) << i;
  }
}

}  // namespace
}  // namespace qkv::kernels
