// Conversion to bf16, and attention on bf16.

#include "qkv/ops/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "qkv/ops/attention.h"
#include "qkv/ops/general/weighted_sum.h"
#include "tests/support/random.h"

namespace qkv {
namespace {

using testing::random_tensor;

TEST(Convert, RoundsToNearestAndWidensExactly) {
  const Tensor x = random_tensor({5, 7}, 1);
  const Tensor halves = to_bf16(x).value(), back = to_f32(halves).value();
  ASSERT_EQ(halves.dtype(), DType::bf16);
  ASSERT_EQ(back.shape(), x.shape());
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float number = x.data()[i], near = back.data()[i];
    EXPECT_EQ(std::bit_cast<uint32_t>(near) & 0xFFFF, 0u);
    EXPECT_LE(std::abs(near - number), std::ldexp(std::abs(number), -8)) << number;
  }
  EXPECT_TRUE(to_bf16(halves).value().shares_memory(halves)) << "nothing to do";
  EXPECT_THROW(to_f32(Tensor::from(std::vector<int32_t>{1, 2}, {2})), ShapeError);
}

TEST(Convert, ColumnsOfAMatrixAndTheirGradients) {
  const Variable x = Variable::parameter(random_tensor({4, 6}, 2));
  const Tensor coefficients = random_tensor({4, 3}, 3);
  Tape tape;
  const Variable part = to_f32(to_bf16(x.columns(2, 3)));
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 3; ++j)
      EXPECT_NEAR(part.value().data()[i * 3 + j], x.value().data()[i * 6 + 2 + j], 0x1p-9);
  }
  tape.backward(weighted_sum(part, coefficients));
  const Tensor gradient = x.grad(), rounded = to_f32(to_bf16(coefficients)).value();
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 6; ++j) {
      const float expected = j < 2 || j > 4 ? 0 : rounded.data()[i * 3 + j - 2];  // as the part's gradient is
      EXPECT_EQ(gradient.data()[i * 6 + j], expected) << i << ", " << j;
    }
  }
}

// Attention on bf16 equals attention on the same values in f32, with its output rounded once.
TEST(Bf16Attention, EqualsF32AttentionOnTheSameValues) {
  const Variable query = Variable::parameter(to_bf16(random_tensor({9, 4, 6}, 1)).value());
  const Variable key = Variable::parameter(to_bf16(random_tensor({11, 2, 6}, 2)).value());
  const Variable value = Variable::parameter(to_bf16(random_tensor({11, 2, 5}, 3)).value());
  const Tensor coefficients = random_tensor({9, 4, 5}, 4);
  const AttentionOptions options{.causal = true,
                                 .query_offsets = Offsets({0, 4, 9}),
                                 .key_offsets = Offsets({0, 6, 11}),
                                 .return_weights = true};
  AttentionResult result;
  {
    Tape tape;
    result = scaled_dot_product_attention(query, key, value, options);
    tape.backward(weighted_sum(to_f32(result.output), coefficients));
  }
  const auto wide = [](const Variable& x) { return Variable::parameter(to_f32(x.value()).value()); };
  const Variable wide_query = wide(query), wide_key = wide(key), wide_value = wide(value);
  AttentionResult expected;
  {
    Tape tape;
    expected = scaled_dot_product_attention(wide_query, wide_key, wide_value, options);
    // A gradient has the dtype of its value, here that of the output.
    tape.backward(weighted_sum(expected.output, to_f32(to_bf16(coefficients)).value()));
  }
  ASSERT_EQ(result.output.value().dtype(), DType::bf16);
  ASSERT_EQ(result.output.shape(), (Shape{9, 4, 5}));
  const Tensor rounded = to_bf16(expected.output.value()).value();
  for (int64_t i = 0; i < rounded.numel(); ++i)
    EXPECT_EQ(result.output.value().data<BFloat16>()[i], rounded.data<BFloat16>()[i]) << i;
  const auto same = [](const Tensor& a, const Tensor& b) {
    ASSERT_EQ(a.dtype(), DType::f32);
    ASSERT_EQ(a.shape(), b.shape());
    for (int64_t i = 0; i < a.numel(); ++i) ASSERT_EQ(a.data()[i], b.data()[i]) << i;
  };
  for (size_t s = 0; s < 2; ++s) same(result.weights[s], expected.weights[s]);
  const auto same_rounded = [&](const Variable& half, const Variable& whole) {
    ASSERT_EQ(half.grad().dtype(), DType::bf16);
    same(to_f32(half.grad()).value(), to_f32(to_bf16(whole.grad())).value());
  };
  same_rounded(query, wide_query);
  same_rounded(key, wide_key);
  same_rounded(value, wide_value);
  EXPECT_NE(wide_query.grad().data()[7], 0);
}

TEST(Bf16Attention, InputsMustHaveTheSameDType) {
  const Tensor x = random_tensor({3, 2, 4}, 1), halves = to_bf16(x).value();
  EXPECT_THROW(scaled_dot_product_attention(halves, x, x), ShapeError);
  EXPECT_THROW(scaled_dot_product_attention(x, x, halves), ShapeError);
  const Tensor whole = Tensor::zeros({3, 2, 4}, DType::i32);
  EXPECT_THROW(scaled_dot_product_attention(whole, whole, whole), ShapeError);
}

}  // namespace
}  // namespace qkv
