#include "qkv/nn/residual_branches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "qkv/nn/decoder.h"
#include "qkv/nn/encoder.h"
#include "tests/support/random.h"

namespace qkv::nn {
namespace {

StackOptions deep_stack(NormPlacement norm) {
  return {.layers = nn::alike(12, {.d_model = 24, .heads = 3, .d_k = 8, .d_v = 8, .d_ff = 40, .norm = norm}),
          .final_norm = norm == NormPlacement::pre};
}

// Attention over the source is a branch too; all other values, of projections into the branches and of norms,
// are as they were.
TEST(ResidualBranches, HaveSmallOutputWeights) {
  const Decoder decoder(deep_stack(NormPlacement::post)), plain(deep_stack(NormPlacement::post));
  initialise(decoder, 5);
  initialise(plain, 5);
  scale_residual_branches(decoder, 0.25f);
  const std::vector<NamedParameter> all = parameters_of(decoder), before = parameters_of(plain);
  std::set<std::string> scaled;
  for (size_t p = 0; p < all.size(); ++p) {
    const auto now = all[p].parameter.variable.value().values(),
               was = before[p].parameter.variable.value().values();
    const bool same = std::ranges::equal(now, was);
    if (same) continue;
    for (size_t i = 0; i < now.size(); ++i) ASSERT_EQ(now[i], 0.25f * was[i]) << all[p].name;
    if (all[p].name.starts_with("layers.3.")) scaled.insert(all[p].name);
  }
  EXPECT_EQ(scaled, (std::set<std::string>{"layers.3.self_attn.out_proj.weight",
                                           "layers.3.encoder_attn.out_proj.weight", "layers.3.fc2.weight"}));
}

// The reason for it: the first steps of a deep post-norm stack change its output less.
TEST(ResidualBranches, ReduceTheEffectOfAStep) {
  const Offsets offsets({0, 7, 16});
  const Tensor x = testing::random_tensor({16, 24}, 3);
  // The distance of the outputs before and after each parameter moved by 1e-3, as in Adam's first step.
  const auto shift = [&](float factor) {
    const Encoder encoder(deep_stack(NormPlacement::post));
    initialise(encoder, 7);
    scale_residual_branches(encoder, factor);
    ForwardContext context;
    const Tensor before = encoder(x, offsets, context).value();
    uint64_t seed = 100;
    for (const auto& [name, parameter] : parameters_of(encoder)) {
      Tensor value = parameter.variable.value().clone();
      const Tensor direction = testing::random_tensor(value.shape(), ++seed);
      for (int64_t i = 0; i < value.numel(); ++i) value.data()[i] += direction.data()[i] > 0 ? 1e-3f : -1e-3f;
      parameter.set_value({value});
    }
    const Tensor after = encoder(x, offsets, context).value();
    double squares = 0;
    for (int64_t i = 0; i < after.numel(); ++i) {
      const double difference = double{after.data()[i]} - double{before.data()[i]};
      squares += difference * difference;
    }
    return std::sqrt(squares);
  };
  const double plain = shift(1), small = shift(kResidualStart);
  EXPECT_GT(small, 0);
  EXPECT_LT(small, plain / 2);
}

}  // namespace
}  // namespace qkv::nn
