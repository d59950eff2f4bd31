// Encoders, attention modules and initialisation.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "qkv/base/scope.h"
#include "qkv/nn/decoder.h"
#include "qkv/ops/general/weighted_sum.h"
#include "tests/nn/small_stacks.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

TEST(Encoder, ErrorsNameTheModule) {
  const nn::Encoder encoder(language_stack());
  nn::initialise(encoder, 1);
  nn::ForwardContext context;
  const NameScope scope("encoder");
  try {
    encoder(random_tensor({3, 5}, 1), Offsets({0, 3}), context);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("encoder.layers.0")) << error.what();
  }
}

// Layers above frozen ones get the same gradients as if those were trained too, with and without
// recomputation.
TEST(Encoder, FrozenLayersGetNoGradient) {
  const Offsets offsets({0, 5, 12});
  const Tensor x = random_tensor({12, 24}, 3), coefficients = random_tensor({12, 24}, 4);
  const auto gradients = [&](bool freeze, bool recompute) {
    const nn::Encoder encoder(language_stack());
    nn::initialise(encoder, 7);
    encoder.visit([&](const std::string& name, const nn::Parameter& parameter) {
      parameter.variable.set_requires_grad(!freeze || !name.starts_with("layers.0."));
    });
    nn::ForwardContext context{.training = true, .recompute = recompute};
    Tape tape;
    tape.backward(weighted_sum(encoder(x, offsets, context), coefficients));
    std::map<std::string, Tensor> found;
    encoder.visit([&](const std::string& name, const nn::Parameter& parameter) {
      if (parameter.variable.has_grad()) found[name] = parameter.variable.grad();
    });
    return found;
  };
  const auto all = gradients(false, false);
  for (const bool recompute : {false, true}) {
    const auto some = gradients(true, recompute);
    EXPECT_LT(some.size(), all.size());
    for (const auto& [name, gradient] : all) {
      EXPECT_EQ(some.contains(name), !name.starts_with("layers.0.")) << name;
      if (!some.contains(name)) continue;
      EXPECT_EQ(std::memcmp(some.at(name).data(), gradient.data(), gradient.bytes()), 0) << name;
    }
  }
}

TEST(Encoder, TakesNoTokens) {
  for (const auto kind : {nn::PositionKind::none, nn::PositionKind::rotary, nn::PositionKind::relative,
                          nn::PositionKind::alibi}) {
    // Its table of angles is this test's alone.
    const nn::Encoder encoder(
        {.layers = nn::alike(1, {.d_model = 12,
                                 .heads = 2,
                                 .d_ff = 9,
                                 .attention = {.positions = {.kind = kind, .rotary_base = 1234}}})});
    nn::initialise(encoder, 4);
    for (const int64_t sequences : {0, 3}) {
      nn::ForwardContext context;
      const Variable y = encoder(Tensor::zeros({0, 12}), Offsets::uniform(sequences, 0), context);
      EXPECT_EQ(y.shape(), (Shape{0, 12}));
    }
  }
}

// A changed parameter would give the gradient of another function.
TEST(Encoder, RefusesARecomputedLayerWhoseParametersChanged) {
  const nn::Encoder encoder({.layers = nn::alike(2, {.d_model = 12, .heads = 2, .d_ff = 9})});
  nn::initialise(encoder, 4);
  for (const bool recompute : {false, true}) {
    nn::ForwardContext context{.training = true, .recompute = recompute};
    Tape tape;
    const Variable y = encoder(random_tensor({5, 12}, 3), Offsets::uniform(1, 5), context);
    encoder.visit([](const std::string& name, const nn::Parameter& parameter) {
      if (name == "layers.1.self_attn.q_proj.weight") Variable(parameter.variable).mark_modified();
    });
    expect_throw<UsageError>("layers.1", [&] { tape.backward(y, random_tensor({5, 12}, 4)); });
  }
}

TEST(Encoder, SequencesHaveTheSameBitsInAnyBatch) {
  const nn::Encoder encoder(small_stack(nn::NormPlacement::post));
  nn::initialise(encoder, 7);
  const Offsets offsets({0, 7, 8, 40, 61});
  const Tensor x = random_tensor({61, 24}, 8);
  nn::ForwardContext context;
  const Tensor together = encoder(x, offsets, context).value();
  for (int64_t s = 0; s < offsets.sequences(); ++s) {
    const Tensor own = x.slice_rows(offsets.begin(s), offsets.length(s));
    const Tensor alone = encoder(own, Offsets::uniform(1, offsets.length(s)), context).value();
    for (int64_t i = 0; i < alone.numel(); ++i) {
      ASSERT_EQ(alone.data()[i], together.data()[offsets.begin(s) * 24 + i]) << "sequence " << s;
    }
  }
}

TEST(MultiheadAttention, RejectsInvalidOptions) {
  EXPECT_THROW(nn::MultiheadAttention({.d_model = 10, .heads = 3}), UsageError);
  EXPECT_NO_THROW(nn::MultiheadAttention({.d_model = 10, .heads = 3, .d_k = 4, .d_v = 2}));
  const nn::MultiheadAttention attention({.d_model = 8, .heads = 2});
  nn::initialise(attention, 1);
  nn::ForwardContext context;
  EXPECT_THROW(attention.self(random_tensor({5, 7}, 1), Offsets({0, 5}), {}, context), ShapeError);
  EXPECT_THROW(attention.self(random_tensor({5, 8}, 1), Offsets({0, 6}), {}, context), ShapeError);
}

TEST(MultiheadAttention, StepsRequireALongEnoughRelativeBias) {
  const nn::MultiheadAttention attention({.d_model = 24, .heads = 4});
  nn::initialise(attention, 9);
  nn::KeyValueCache cache(1);
  const Tensor x = random_tensor({1, 24}, 3);
  attention.self_step(x, cache, random_tensor({4, 1}, 1));
  attention.self_step(x, cache, random_tensor({4, 3}, 1));
  EXPECT_THROW(attention.self_step(x, cache, random_tensor({4, 3}, 1)), ShapeError) << "3 positions need 5";
  EXPECT_THROW(attention.self_step(x, cache, random_tensor({2, 9}, 1)), ShapeError) << "heads";
}

TEST(MultiheadAttention, GroupedHeadsStepsMatchTheFullForwardPass) {
  EXPECT_THROW(nn::MultiheadAttention({.d_model = 24, .heads = 4, .key_heads = 3}), UsageError);
  const nn::MultiheadAttention attention({.d_model = 24, .heads = 4, .key_heads = 2});
  nn::initialise(attention, 9);
  EXPECT_EQ(nn::count_parameters(attention), 2 * 24 * (24 + 1) + 2 * 12 * (24 + 1));
  const int64_t length = 20;
  const Tensor x = random_tensor({length, 24}, 3);
  nn::ForwardContext context;
  const Tensor whole = attention.self(x, Offsets::uniform(1, length), {.causal = true}, context).value();
  nn::KeyValueCache cache(1);
  for (int64_t i = 0; i < length; ++i) {
    expect_close(attention.self_step(x.slice_rows(i, 1), cache), whole.slice_rows(i, 1), "position", 2e-6);
  }
  const Tensor queries = random_tensor({2, 24}, 4);
  const Offsets two({0, 2}), all = Offsets::uniform(1, length);
  const nn::MemoryKeyValues memory = attention.encode_memory(x, all);
  expect_close(attention.cross_step(queries, two, memory),
               attention.cross(queries, two, x, x, all, {}, context).value(), "memory", 2e-6);
}

TEST(Initialise, DependsOnSeedAndNameOnly) {
  const nn::Linear linear({.inputs = 20, .outputs = 30});
  nn::initialise(linear, 3);
  const Tensor first = linear.weight().variable.value().clone();
  nn::initialise(linear, 3);
  EXPECT_TRUE(std::ranges::equal(first.values(), linear.weight().variable.value().values()));
  nn::initialise(linear, 4);
  EXPECT_FALSE(std::ranges::equal(first.values(), linear.weight().variable.value().values()));
  const float bound = std::sqrt(6.0f / 50.0f);
  double squares = 0;
  for (const float x : first.values()) {
    ASSERT_LE(std::abs(x), bound);
    squares += double{x} * x;
  }
  EXPECT_NEAR(squares / 600, bound * bound / 3, 0.1 * bound * bound / 3);
}

}  // namespace
