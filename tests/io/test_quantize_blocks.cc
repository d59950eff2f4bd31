#include "qkv/tensor/quantize_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "qkv/base/parallel.h"
#include "qkv/io/safetensors.h"
#include "qkv/tensor/block_dtypes.h"
#include "tests/support/scratch.h"

namespace qkv::io {
namespace {

using testing::message_of;

constexpr DType kBlocks[] = {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0,  DType::q5_1,
                             DType::q4_k, DType::q5_k, DType::q6_k, DType::iq4_nl};

// Weights of several distributions, [rows, 256], and the blocks that PyPI's gguf or ggml make of them
// (tests/golden/gguf_types.py).
SafetensorsFile golden() {
  return SafetensorsFile(std::filesystem::path(QKV_TEST_DATA) / "io/golden/quantized.safetensors");
}

std::vector<float> golden_numbers() {
  const Tensor numbers = golden().tensor("numbers");
  return {numbers.values().begin(), numbers.values().end()};
}

std::vector<std::byte> quantized(DType dtype, const std::vector<float>& numbers) {
  std::vector<std::byte> blocks(bytes_of(dtype, std::ssize(numbers)));
  quantize_blocks(dtype, numbers.data(), std::ssize(numbers), blocks.data());
  return blocks;
}

std::vector<float> widened_numbers(DType dtype, const void* blocks, size_t count) {
  std::vector<float> numbers(count);
  widen_blocks(dtype, blocks, static_cast<int64_t>(count), numbers.data());
  return numbers;
}

double squared_error(const float* a, const float* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return sum;
}

// 1e-6: errors are summed in f32 during the search.
TEST(QuantizeBlocks, HasNoLargerErrorThanThePeersInAnyBlockOf32) {
  const SafetensorsFile file = golden();
  const std::vector<float> numbers = golden_numbers();
  for (const DType dtype : {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::iq4_nl}) {
    const auto ours = widened_numbers(dtype, quantized(dtype, numbers).data(), numbers.size());
    const auto theirs = widened_numbers(dtype, file.bytes(name_of(dtype)).data(), numbers.size());
    double our_sum = 0, their_sum = 0;
    for (size_t at = 0; at < numbers.size(); at += 32) {
      const double error = squared_error(&ours[at], &numbers[at], 32);
      const double of_peer = squared_error(&theirs[at], &numbers[at], 32);
      EXPECT_LE(error, of_peer * (1 + 1e-6)) << name_of(dtype) << ", block " << at / 32;
      our_sum += error;
      their_sum += of_peer;
    }
    EXPECT_LT(our_sum, 0.99 * their_sum) << name_of(dtype);
  }
}

TEST(QuantizeBlocks, HasNoLargerErrorThanGgmlInAnyBlockOf256) {
  const SafetensorsFile file = golden();
  const std::vector<float> numbers = golden_numbers();
  for (const DType dtype : {DType::q4_k, DType::q5_k, DType::q6_k}) {
    const auto ours = widened_numbers(dtype, quantized(dtype, numbers).data(), numbers.size());
    const auto theirs = widened_numbers(dtype, file.bytes(name_of(dtype)).data(), numbers.size());
    for (size_t at = 0; at < numbers.size(); at += 256) {
      const double error = squared_error(&ours[at], &numbers[at], 256);
      // The f16 scales alone may cause a relative error of 2^-11.
      const double size = squared_error(&numbers[at], std::vector<float>(256).data(), 256);
      const double of_peer = std::max(squared_error(&theirs[at], &numbers[at], 256), size * 0x1p-22);
      EXPECT_LE(error, of_peer * (1 + 1e-6)) << name_of(dtype) << ", block " << at / 256;
    }
  }
}

TEST(QuantizeBlocks, KeepsNumbersThatBlocksCanHold) {
  const SafetensorsFile file = golden();
  for (const DType dtype : kBlocks) {
    // Integers that reach both ends, times a scale that f16 holds.
    const auto at = file.bytes(name_of(dtype));
    const auto numbers = widened_numbers(dtype, at.data(), 4 * 256);
    const auto again = widened_numbers(dtype, quantized(dtype, numbers).data(), numbers.size());
    const double size = squared_error(numbers.data(), std::vector<float>(numbers.size()).data(), 1024);
    EXPECT_LT(squared_error(again.data(), numbers.data(), 1024), 1e-5 * size) << name_of(dtype);
  }
}

TEST(QuantizeBlocks, KeepsZeros) {
  const std::vector<float> zeros(256);
  for (const DType dtype : kBlocks)
    EXPECT_EQ(widened_numbers(dtype, quantized(dtype, zeros).data(), 256), zeros) << name_of(dtype);
}

TEST(QuantizeBlocks, HasTheSameBitsForAnyNumberOfThreads) {
  std::vector<float> numbers;
  for (int i = 0; i < 4; ++i)
    for (const float number : golden_numbers()) numbers.push_back(number * static_cast<float>(1 + i));
  const int before = threads();
  for (const DType dtype : kBlocks) {
    set_threads(1);
    const auto alone = quantized(dtype, numbers);
    set_threads(3);
    EXPECT_EQ(quantized(dtype, numbers), alone) << name_of(dtype);
    const std::vector<float> second(numbers.begin() + 256, numbers.begin() + 512);
    const auto part = quantized(dtype, second);
    EXPECT_EQ(std::memcmp(part.data(), alone.data() + part.size(), part.size()), 0) << name_of(dtype);
  }
  set_threads(before);
}

TEST(QuantizeBlocks, RoundsToNearestInSixteenBits) {
  const std::vector<float> numbers{1 + 0x1p-11f, 1 + 0x1.8p-10f, -0x1p-25f,
                                   1 + 0x1p-8f,  1 + 0x1.8p-7f,  3e38f};
  const auto bits = [&](DType dtype, size_t count) {
    const auto bytes = quantized(dtype, {numbers.begin(), numbers.begin() + static_cast<int64_t>(count)});
    std::vector<uint16_t> all(count);
    std::memcpy(all.data(), bytes.data(), bytes.size());
    return all;
  };
  EXPECT_THAT(bits(DType::f16, 3), ::testing::ElementsAre(0x3C00, 0x3C02, 0x8000));
  EXPECT_THAT(bits(DType::bf16, 6), ::testing::ElementsAre(0x3F80, 0x3F80, 0xB300, 0x3F80, 0x3F82, 0x7F62));
}

TEST(QuantizeBlocks, RefusesNumbersThatTheFormatCannotHold) {
  std::vector<float> numbers(256, 0.5f);
  numbers[100] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(message_of<NumericError>([&] { quantized(DType::q4_k, numbers); }),
              ::testing::HasSubstr("expected finite numbers up to 65504 for q4_k, found nan"));
  numbers[100] = -70000;
  EXPECT_THAT(message_of<NumericError>([&] { quantized(DType::f16, numbers); }),
              ::testing::HasSubstr("for f16, found -70000"));
  numbers[100] = std::numeric_limits<float>::infinity();
  for (const DType dtype : {DType::f32, DType::bf16, DType::q8_0})
    EXPECT_THROW(quantized(dtype, numbers), NumericError) << name_of(dtype);
  numbers.pop_back();
  EXPECT_THAT(message_of<UsageError>([&] { quantized(DType::q8_0, numbers); }),
              ::testing::HasSubstr("expected a multiple of 32 numbers for q8_0, found 255"));
  EXPECT_THROW(quantized(DType::i8, numbers), UsageError);
}

}  // namespace
}  // namespace qkv::io
