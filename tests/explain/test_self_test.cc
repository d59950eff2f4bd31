#include "qkv/explain/self_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "tests/support/devices.h"

namespace qkv::explain {
namespace {

std::vector<std::string> failures(const KernelsUnderTest& kernels) {
  std::vector<std::string> names;
  for (const SelfCheck& check : self_test({.kernels = kernels})) {
    if (!check.passed) names.push_back(check.name);
  }
  return names;
}

TEST(SelfTest, PassesHere) {
  int told = 0;
  const std::vector<SelfCheck> checks = self_test({.on_result = [&told](const SelfCheck&) { ++told; }});
  EXPECT_GT(checks.size(), 8u);
  EXPECT_EQ(told, static_cast<int>(checks.size()));
  for (const SelfCheck& check : checks) {
    EXPECT_TRUE(check.passed) << check.name << ": " << check.found;
    EXPECT_FALSE(check.found.empty()) << check.name;
  }
}

TEST(SelfTest, PassesOnEachDevice) {
  testing::for_each_device([](Device device) {
    const std::vector<SelfCheck> checks = self_test({.device = device});
    EXPECT_GT(checks.size(), 8u);
    for (const SelfCheck& check : checks) EXPECT_TRUE(check.passed) << check.name << ": " << check.found;
  });
  if (!testing::kHasReference) return;
  SelfTestOptions options{.device = Device::reference};
  options.kernels.layer_gradients = [own = options.kernels.layer_gradients](const Tensor& x,
                                                                            const Offsets& offsets) {
    Tensor y = own(x, offsets).clone();
    y.values()[7] += 0.01f;
    return y;
  };
  const std::vector<SelfCheck> checks = self_test(options);
  EXPECT_EQ(std::ranges::count(checks, false, &SelfCheck::passed), 1);
  EXPECT_EQ(checks.back().name, "gradients of a layer");
  EXPECT_FALSE(checks.back().passed);
}

// One element of a kernel's result is slightly wrong; only that kernel's checks fail.
TEST(SelfTest, NamesTheKernelThatIsWrong) {
  const KernelsUnderTest own = own_kernels();
  const auto off = [](Tensor y, float by) {
    y.values()[y.numel() / 2] += by;
    return y;
  };
  using Names = std::vector<std::string>;
  KernelsUnderTest wrong = own;
  for (const DType broken : {DType::f32, DType::bf16}) {
    const std::string of = broken == DType::bf16 ? ", mixed precision" : "";
    wrong.packed_product = [&](const Tensor& x, const Tensor& w, const Tensor& bias, DType operands) {
      return off(own.packed_product(x, w, bias, operands), operands == broken ? 1e-3f : 0);
    };
    wrong.weight_gradient = [&](const Tensor& dy, const Tensor& x, DType operands) {
      return off(own.weight_gradient(dy, x, operands), operands == broken ? 1e-3f : 0);
    };
    EXPECT_EQ(failures(wrong), (Names{"product, packed weights" + of, "gradient of a weight" + of}));
  }
  // Operands that are not rounded.
  wrong = own;
  wrong.packed_product = [&](const Tensor& x, const Tensor& w, const Tensor& bias, DType) {
    return own.packed_product(x, w, bias, DType::f32);
  };
  EXPECT_EQ(failures(wrong), Names{"product, packed weights, mixed precision"});

  wrong = own;
  wrong.product_in_place = [&](const Tensor& x, const QuantizedTensor& w, const Tensor& bias) {
    const Tensor y = own.product_in_place(x, w, bias);
    return w.dtype() == DType::bf16 ? off(y, 1e-3f) : w.dtype() == DType::i8 ? off(y, 3) : y;
  };
  EXPECT_EQ(failures(wrong), (Names{"product, bf16 weights in place", "product, int8 weights in place"}));

  wrong = own;
  wrong.weight_gradient = [&](const Tensor& dy, const Tensor& x, DType operands) {
    return off(own.weight_gradient(dy, x, operands), NAN);
  };
  EXPECT_EQ(failures(wrong), (Names{"gradient of a weight", "gradient of a weight, mixed precision"}));

  wrong = own;
  wrong.attention = [&](const Tensor& query, const Tensor& key, const Tensor& value, int64_t heads,
                        AttentionOptions options) {
    options.causal = false;
    return own.attention(query, key, value, heads, options);
  };
  EXPECT_EQ(failures(wrong), (Names{"attention, recorded values", "causal attention, by definition"}));

  wrong = own;
  wrong.layer = [&](const Tensor& x, const Offsets& offsets) {
    const Tensor y = own.layer(x, offsets);
    return offsets.sequences() > 1 ? off(y, 1e-6f) : y;
  };
  EXPECT_EQ(failures(wrong), Names{"same bits in any batch"});

  wrong = own;
  wrong.layer_gradients = [&](const Tensor& x, const Offsets& offsets) {
    return off(own.layer_gradients(x, offsets), threads() == 3 ? 1e-2f : 0.0f);
  };
  EXPECT_EQ(failures(wrong), Names{"same gradients for any number of threads"});

  wrong = own;
  wrong.attention = [](const Tensor&, const Tensor&, const Tensor&, int64_t,
                       const AttentionOptions&) -> Tensor { throw NumericError("no such kernel"); };
  const std::vector<SelfCheck> checks = self_test({.kernels = wrong});
  EXPECT_EQ(std::ranges::count(checks, "no such kernel", &SelfCheck::found), 3);
}

}  // namespace
}  // namespace qkv::explain
