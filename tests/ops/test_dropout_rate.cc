#include <gtest/gtest.h>

#include <limits>

#include "qkv/ops/activation.h"
#include "qkv/ops/attention.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/gated.h"
#include "qkv/ops/linear_activate.h"
#include "qkv/ops/norm.h"
#include "tests/support/random.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

// Rates of 1, and invalid rates.
TEST(DropoutRate, IsAProbabilityBelowOne) {
  const Tensor x = random_tensor({3, 8}, 1), y = random_tensor({3, 8}, 2), weight = random_tensor({8}, 3);
  const LinearWeights weights({Variable(random_tensor({5, 8}, 4))});
  const Tensor ids = Tensor::from<int32_t>({0, 2, 1}, {3});
  const auto expect_refused = [](const char* operation, float rate, const auto& function) {
    const Dropout dropout{.rate = rate};
    try {
      function(dropout);
      FAIL() << operation << " took a rate of " << rate;
    } catch (const UsageError& error) {
      EXPECT_EQ(std::string(error.what()),
                concat(operation, ": expected a dropout rate of at least 0 and below 1, found ", rate));
    }
  };
  for (const float rate : {-0.5f, 1.0f, 1.5f, 0.999999f, std::numeric_limits<float>::quiet_NaN()}) {
    expect_refused("activate", rate, [&](const Dropout& d) { activate(x, Activation::relu, d); });
    expect_refused("linear_activate", rate,
                   [&](const Dropout& d) { linear_activate(x, weights, Activation::relu, d); });
    expect_refused("gated", rate, [&](const Dropout& d) { gated(x, y, Activation::silu, d); });
    expect_refused("residual", rate, [&](const Dropout& d) { residual(x, y, d); });
    expect_refused("residual_rms_norm", rate,
                   [&](const Dropout& d) { residual_rms_norm(x, y, d, weight, 1e-5f); });
    expect_refused("embedding", rate, [&](const Dropout& d) { embedding(x, ids, {}, {.dropout = d}); });
    expect_refused("attention", rate,
                   [&](const Dropout& d) { multihead_attention(x, x, y, 2, {.dropout = d}); });
  }
}

}  // namespace
