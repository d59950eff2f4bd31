#include "qkv/ops/general/calibrated.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "qkv/base/parallel.h"
#include "qkv/ops/linear.h"
#include "qkv/ops/linear_inputs.h"
#include "qkv/ops/quantize.h"
#include "qkv/tensor/block_dtypes.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace qkv {
namespace {

using testing::message_of;
using testing::random_tensor;

// Inputs [tokens, k] that are sums of a few random directions, and some noise.
Tensor correlated(int64_t tokens, int64_t k) {
  const Tensor directions = random_tensor({k / 8, k}, 1), shares = random_tensor({tokens, k / 8}, 2);
  Tensor x = random_tensor({tokens, k}, 3).clone();
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < k; ++i) {
      float sum = 0.1f * x.data()[t * k + i];
      for (int64_t d = 0; d < k / 8; ++d)
        sum += shares.data()[t * (k / 8) + d] * directions.data()[d * k + i];
      x.data()[t * k + i] = sum;
    }
  }
  return x;
}

Tensor gram_of(const Tensor& x) {
  const int64_t k = x.dim(1);
  Tensor gram = Tensor::zeros({k, k});
  for (int64_t t = 0; t < x.dim(0); ++t) {
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < k; ++j) gram.data()[i * k + j] += x.data()[t * k + i] * x.data()[t * k + j];
    }
  }
  return gram;
}

// The mean squared error of the products with the inputs.
double error_of(const Tensor& x, const Tensor& weight, const Tensor& rounded) {
  const int64_t k = x.dim(1);
  double sum = 0;
  for (int64_t t = 0; t < x.dim(0); ++t) {
    for (int64_t row = 0; row < weight.rows(); ++row) {
      double difference = 0;
      for (int64_t i = 0; i < k; ++i) {
        difference += double{x.data()[t * k + i]} *
                      (double{weight.data()[row * k + i]} - double{rounded.data()[row * k + i]});
      }
      sum += difference * difference;
    }
  }
  return sum / static_cast<double>(x.dim(0) * weight.rows());
}

TEST(Calibrated, ChangesProductsLessThanRoundingToNearest) {
  const int64_t k = 256;
  const Tensor x = correlated(600, k), weight = random_tensor({13, k}, 4), gram = gram_of(x);
  for (const DType dtype : kBlockDTypes) {
    const double plain = error_of(x, weight, dequantize(to_dtype({weight}, dtype)));
    const double calibrated = error_of(x, weight, dequantize(quantize_calibrated(weight, gram, dtype)));
    EXPECT_LT(calibrated, plain / 3) << name_of(dtype);
  }
}

// Uncorrelated inputs leave nothing to make up for: every number goes to its nearest.
TEST(Calibrated, IsRoundingToNearestForUncorrelatedInputs) {
  const int64_t k = 256;
  const Tensor weight = random_tensor({5, k}, 4);
  Tensor gram = Tensor::zeros({k, k});
  for (int64_t i = 0; i < k; ++i) gram.data()[i * k + i] = 1 + static_cast<float>(i % 7);
  for (const DType dtype : kBlockDTypes) {
    const QuantizedTensor plain = to_dtype({weight}, dtype),
                          calibrated = quantize_calibrated(weight, gram, dtype);
    EXPECT_TRUE(std::ranges::equal(plain.values.as_bytes(), calibrated.values.as_bytes())) << name_of(dtype);
  }
}

TEST(Calibrated, InputsThatNeverOccurDoNotMatter) {
  const int64_t k = 64;
  Tensor x = correlated(200, k);
  for (int64_t t = 0; t < 200; ++t) x.data()[t * k + 5] = 0;
  const Tensor weight = random_tensor({5, k}, 4);
  const Tensor found = dequantize(quantize_calibrated(weight, gram_of(x), DType::q4_0));
  for (const float value : found.values()) ASSERT_TRUE(std::isfinite(value));
  dequantize(quantize_calibrated(weight, Tensor::zeros({k, k}), DType::q4_0));
}

TEST(Calibrated, HasTheSameBitsForAnyNumberOfThreads) {
  const int64_t k = 192;
  const Tensor x = correlated(300, k), weight = random_tensor({37, k}, 4), gram = gram_of(x);
  const int before = threads();
  set_threads(1);
  const QuantizedTensor one = quantize_calibrated(weight, gram, DType::q5_1);
  for (const int count : {2, 3}) {
    set_threads(count);
    const QuantizedTensor more = quantize_calibrated(weight, gram, DType::q5_1);
    EXPECT_TRUE(std::ranges::equal(one.values.as_bytes(), more.values.as_bytes())) << count;
  }
  set_threads(before);
}

TEST(Calibrated, RefusesShapesAndNumbersByName) {
  const Tensor weight = random_tensor({3, 64}, 1), gram = Tensor::zeros({64, 64});
  EXPECT_NE(message_of<ShapeError>([&] {
              quantize_calibrated(weight, Tensor::zeros({32, 32}), DType::q4_0);
            }).find("[3, 64]"),
            std::string::npos);
  EXPECT_NE(message_of<ShapeError>([&] { quantize_calibrated(weight, gram, DType::q4_k); }).find("256"),
            std::string::npos);
  Tensor bad = weight.clone();
  bad.data()[7] = NAN;
  EXPECT_NE(message_of<NumericError>([&] { quantize_calibrated(bad, gram, DType::q4_0); }).find("finite"),
            std::string::npos);
}

TEST(LinearInputs, AreReportedWithTheirWeights) {
  const Variable x(random_tensor({4, 8}, 1)), a(random_tensor({3, 8}, 2)), b(random_tensor({2, 8}, 3));
  const LinearWeights both(std::vector<Weight>{Weight(a), Weight(b)});
  int calls = 0;
  {
    const LinearInputs inputs([&](const Tensor& seen, const std::vector<Weight>& weights) {
      ++calls;
      EXPECT_TRUE(seen.shares_memory(x.value()));
      ASSERT_EQ(weights.size(), 2u);
      EXPECT_TRUE(weights[1].values().shares_memory(b.value()));
    });
    linear(x, both);
    EXPECT_NE(message_of<UsageError>([] { LinearInputs({}); }).find("found another"), std::string::npos);
  }
  linear(x, both);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace qkv
