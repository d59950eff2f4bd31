#include "qkv/ops/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "qkv/tensor/block_dtypes.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

TEST(Quantize, ParsesDTypeNames) {
  EXPECT_EQ(weight_dtype_names(),
            (std::vector<std::string>{"f32", "bf16", "f16", "int8", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1",
                                      "q4_k", "q5_k", "q6_k", "iq4_nl"}));
  for (const std::string& name : weight_dtype_names())
    EXPECT_EQ(weight_dtype_name(weight_dtype_from_name(name)), name);
  const std::string message = message_of<UsageError>([] { weight_dtype_from_name("int4"); });
  EXPECT_NE(message.find("expected one of f32, bf16, f16, int8, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, "
                         "q6_k, iq4_nl, found \"int4\""),
            std::string::npos)
      << message;
  EXPECT_NE(message_of<ShapeError>([] { weight_dtype_name(DType::i32); }).find("found i32"),
            std::string::npos);
}

TEST(Quantize, RoundTrips) {
  const Tensor numbers = random_tensor({6, 50}, 1);
  const QuantizedTensor int8 = to_dtype({numbers}, DType::i8);
  EXPECT_EQ(int8.dtype(), DType::i8);
  ASSERT_EQ(int8.scales.shape(), Shape{6});
  // A rounded int8 weight is exact in f32, and rounds to itself.
  const QuantizedTensor wide = to_dtype(int8, DType::f32), again = to_dtype(wide, DType::i8);
  EXPECT_EQ(std::memcmp(again.values.as_bytes().data(), int8.values.as_bytes().data(), int8.values.bytes()),
            0);
  EXPECT_FALSE(wide.scales.defined());
  const QuantizedTensor same = to_dtype(int8, DType::i8);
  EXPECT_TRUE(same.values.shares_memory(int8.values)) << "copied";
}

TEST(Quantize, BlocksAreCloseAndTakeTheirBytes) {
  const Tensor numbers = random_tensor({5, 512}, 1), view = random_tensor({5, 520}, 1).columns(8, 512);
  float largest = 0;
  for (const float x : numbers.values()) largest = std::max(largest, std::abs(x));
  for (const DType dtype : kBlockDTypes) {
    const QuantizedTensor blocks = to_dtype({numbers}, dtype);
    EXPECT_EQ(blocks.dtype(), dtype);
    EXPECT_EQ(blocks.values.bytes(), bytes_of(dtype, 5 * 512));
    EXPECT_FALSE(blocks.scales.defined());
    const Tensor wide = dequantize(blocks);
    const float steps = dtype == DType::q8_0 ? 127 : dtype == DType::q6_k ? 31 : 7;
    for (int64_t i = 0; i < wide.numel(); ++i)
      ASSERT_NEAR(wide.data()[i], numbers.data()[i], 1.1f * largest / steps) << name_of(dtype) << " at " << i;
    const Tensor found = dequantize(to_dtype({view}, dtype)),
                 expected = dequantize(to_dtype({view.clone()}, dtype));
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), expected.bytes()), 0) << name_of(dtype);
    // Blocks of another dtype are widened first.
    EXPECT_EQ(to_dtype(blocks, DType::bf16).dtype(), DType::bf16);
  }
}

TEST(Quantize, RowsThatAreNoBlocksBecomeF16) {
  EXPECT_EQ(to_dtype({random_tensor({2, 40}, 1)}, DType::q4_0).dtype(), DType::f16);
  EXPECT_EQ(to_dtype({random_tensor({2, 96}, 1)}, DType::q4_k).dtype(), DType::f16);
  for (const int64_t cols : {64, 40}) {
    Tensor numbers = random_tensor({2, cols}, 1);
    numbers.data()[cols + 3] = std::numeric_limits<float>::infinity();
    EXPECT_NE(message_of<NumericError>([&] { to_dtype({numbers}, DType::q4_0); }).find("finite"),
              std::string::npos);
  }
}

TEST(Quantize, ViewsEqualTheirCopies) {
  const Tensor whole = random_tensor({6, 50}, 1), view = whole.columns(3, 20);
  for (const DType dtype : kWeightDTypes) {
    const Tensor found = dequantize(to_dtype({view}, dtype)),
                 expected = dequantize(to_dtype({view.clone()}, dtype));
    EXPECT_EQ(std::memcmp(found.clone().data(), expected.data(), expected.bytes()), 0) << name_of(dtype);
  }
}

// Vectors in 16 bits, as other programs store biases and norms.
TEST(Quantize, WidensAnyRank) {
  for (const Shape& shape : {Shape{7}, Shape{2, 3, 4}}) {
    for (const auto& [dtype, steps] : {std::pair{DType::bf16, 256}, std::pair{DType::f16, 2048}}) {
      const Tensor numbers = random_tensor(shape, 1), wide = dequantize(to_dtype({numbers}, dtype));
      ASSERT_EQ(wide.shape(), shape);
      for (int64_t i = 0; i < shape.numel(); ++i) {
        const float x = numbers.data()[i];
        EXPECT_NEAR(wide.data()[i], x, std::abs(x) / static_cast<float>(steps)) << i;
      }
    }
  }
}

TEST(Quantize, RejectsValuesWithoutInt8Form) {
  Tensor bad = random_tensor({3, 4}, 1);
  bad.values()[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(message_of<NumericError>([&] { to_dtype({bad}, DType::i8); }).find("[3, 4]"), std::string::npos);
  EXPECT_TRUE(std::isnan(dequantize(to_dtype({bad}, DType::bf16)).values()[5]));
  EXPECT_THROW(to_dtype({Tensor::full({1, 70000}, 1.0f)}, DType::i8), ShapeError);
  EXPECT_THROW(to_dtype({bad}, DType::i32), ShapeError);
}

TEST(Quantize, Int8RequiresScales) {
  const QuantizedTensor weight = to_dtype({random_tensor({3, 4}, 1)}, DType::i8);
  for (const Tensor& scales : {Tensor(), Tensor::zeros({4}), Tensor::zeros({3}, DType::i32)}) {
    EXPECT_NE(message_of<ShapeError>([&] {
                dequantize({weight.values, scales});
              }).find("scales [3]"),
              std::string::npos);
  }
  EXPECT_NE(message_of<ShapeError>([] { require_weight("product", {}, {}); }).find("product"),
            std::string::npos);
  EXPECT_NE(message_of<ShapeError>([] { require_weight("product", Tensor::zeros({4}), {}); }).find("[4]"),
            std::string::npos);
}

}  // namespace
