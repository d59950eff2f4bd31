// LoRA on a module.

#include "qkv/nn/low_rank.h"

#include <gtest/gtest.h>

#include <cstring>

#include "qkv/base/error.h"
#include "qkv/nn/encoder.h"
#include "qkv/ops/general/weighted_sum.h"
#include "qkv/ops/tape.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

class LowRankAdapterTest : public ::testing::Test {
 protected:
  LowRankAdapterTest() : encoder_({.layers = nn::alike(2, {.d_model = 24, .heads = 3, .d_ff = 40})}) {
    nn::initialise(encoder_, 3);
  }
  Tensor run() const {
    nn::ForwardContext context;
    return encoder_(x_, offsets_, context).value();
  }
  static void fill_b(const nn::LowRankAdapter& adapter) {
    uint64_t seed = 50;
    for (const nn::LowRankUpdate& update : adapter.updates())
      update.b.set_value({random_tensor(update.b.shape, ++seed)});
  }
  static bool same_bits(const Tensor& a, const Tensor& b) {
    return a.shape() == b.shape() && std::memcmp(a.as_bytes().data(), b.as_bytes().data(), a.bytes()) == 0;
  }

  nn::Encoder encoder_;
  Tensor x_ = random_tensor({13, 24}, 1);
  Offsets offsets_{{0, 4, 13}};
};

TEST_F(LowRankAdapterTest, StartsAsIdentityAndEndsWithTheAdapter) {
  const Tensor before = run();
  {
    const nn::LowRankAdapter adapter(encoder_, {.rank = 4, .alpha = 8});
    nn::initialise(adapter, 7);
    EXPECT_TRUE(same_bits(run(), before));  // B is zero
    fill_b(adapter);
    EXPECT_FALSE(same_bits(run(), before));
  }
  EXPECT_TRUE(same_bits(run(), before));
}

TEST_F(LowRankAdapterTest, NamesItsMatricesAsPeft) {
  const nn::LowRankAdapter adapter(encoder_, {.rank = 4, .targets = {"q_proj", "fc1"}});
  std::vector<std::string> names;
  std::vector<Shape> shapes;
  adapter.visit([&](const std::string& name, const nn::Parameter& parameter) {
    names.push_back(name);
    shapes.push_back(parameter.shape);
  });
  const std::vector<std::string> expected{"layers.0.self_attn.q_proj.lora_A.weight",
                                          "layers.0.self_attn.q_proj.lora_B.weight",
                                          "layers.0.fc1.lora_A.weight",
                                          "layers.0.fc1.lora_B.weight",
                                          "layers.1.self_attn.q_proj.lora_A.weight",
                                          "layers.1.self_attn.q_proj.lora_B.weight",
                                          "layers.1.fc1.lora_A.weight",
                                          "layers.1.fc1.lora_B.weight"};
  EXPECT_EQ(names, expected);
  EXPECT_EQ(shapes[2], (Shape{4, 24}));
  EXPECT_EQ(shapes[3], (Shape{40, 4}));
}

TEST_F(LowRankAdapterTest, TrainsOnlyItsMatrices) {
  nn::set_requires_grad(encoder_, false);
  const nn::LowRankAdapter adapter(encoder_, {.rank = 4, .targets = {"q_proj", "v_proj", "out_proj", "fc2"}});
  nn::initialise(adapter, 7);
  fill_b(adapter);
  Tape tape;
  nn::ForwardContext context{.training = true};
  tape.backward(weighted_sum(encoder_(x_, offsets_, context), random_tensor({13, 24}, 2)));
  adapter.visit([](const std::string& name, const nn::Parameter& parameter) {
    ASSERT_TRUE(parameter.variable.has_grad()) << name;
    double sum = 0;
    for (const float value : parameter.variable.grad().clone().values()) sum += std::abs(value);
    EXPECT_GT(sum, 1e-3) << name;
  });
  encoder_.visit([](const std::string& name, const nn::Parameter& parameter) {
    EXPECT_FALSE(parameter.variable.has_grad()) << name;
  });
}

TEST_F(LowRankAdapterTest, MergedWeightsMatch) {
  nn::LowRankAdapter adapter(encoder_, {.rank = 4, .alpha = 2, .targets = {"q_proj", "k_proj", "fc1"}});
  nn::initialise(adapter, 7);
  fill_b(adapter);
  const Tensor with = run();
  adapter.merge();
  EXPECT_TRUE(adapter.updates().empty());
  expect_close(run(), with, "merged", 2e-5);
}

TEST_F(LowRankAdapterTest, RejectsMismatchedModules) {
  const auto message = [&](const nn::LowRankOptions& options) -> std::string {
    try {
      const nn::LowRankAdapter adapter(encoder_, options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({.rank = 0}), "lora.rank: expected 1 to 1024, found 0");
  EXPECT_EQ(message({.alpha = -1}), "lora.alpha: expected more than 0, found -1");
  EXPECT_EQ(message({.targets = {}}), "lora.targets: expected at least one projection, found none");
  const nn::LowRankAdapter first(encoder_, {});
  EXPECT_EQ(message({.targets = {"k_proj"}}), "");
  EXPECT_NE(message({}), "");
}

TEST_F(LowRankAdapterTest, ListsTheProjectionsOfAModel) {
  struct Model {
    const nn::Encoder& encoder;
    void visit(const nn::ParameterVisitor& visitor) const { nn::visit_part(visitor, "encoder", encoder); }
  };
  try {
    const nn::LowRankAdapter adapter(Model{encoder_}, {.targets = {"query"}});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(
        error.what(),
        "lora.targets: expected projections of the model's layers (fc1, fc2, k_proj, out_proj, q_proj, "
        "v_proj), found query");
  }
}

}  // namespace
