// Stochastic depth (Huang et al. 2016) in residual connections and stacks.

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/nn/decoder.h"
#include "qkv/ops/dropout.h"
#include "qkv/ops/norm.h"
#include "tests/ops/gradient_check.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nn::NormPlacement;

const Offsets kOffsets({0, 2, 5, 6, 10, 12});

nn::StackOptions stack(NormPlacement norm, float drop_path, float dropout = 0) {
  return {.layers = nn::alike(3, {.d_model = 12,
                                  .heads = 2,
                                  .d_ff = 16,
                                  .activation = Activation::silu,
                                  .norm = norm,
                                  .dropout = dropout}),
          .final_norm = norm == NormPlacement::pre,
          .drop_path = drop_path};
}

nn::ForwardContext training(bool recompute = false) {
  return {.training = true, .seed = 4, .step = 9, .recompute = recompute};
}

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

class DropPathIn : public ::testing::TestWithParam<NormPlacement> {};

TEST(DropPath, GrowsLinearlyWithDepth) {
  const nn::StackOptions options = stack(NormPlacement::pre, 0.3f);
  EXPECT_FLOAT_EQ(options.layer_at(0).drop_path, 0.1f);
  EXPECT_FLOAT_EQ(options.layer_at(1).drop_path, 0.2f);
  EXPECT_FLOAT_EQ(options.layer_at(2).drop_path, 0.3f);
  EXPECT_THROW(nn::Encoder(stack(NormPlacement::pre, 1)), UsageError);
  nn::StackOptions twice = options;
  twice.layers[1].drop_path = 0.1f;
  EXPECT_EQ(message_of<UsageError>([&] { nn::Decoder{twice}; }),
            "layer.drop_path: expected 0 in a stack, which has a drop_path, found 0.1");
}

void initialise(const nn::Residual& residual) {
  residual.visit(
      [](const std::string& name, const nn::Parameter& parameter) { nn::initialise(name, parameter, 1); },
      "branch");
}

// The branch is scaled before it is added, and before a norm that follows.
TEST_P(DropPathIn, DropsTheBranchOfASequence) {
  const nn::Residual residual({.norm = {.features = 6}, .placement = GetParam(), .drop_path = 0.5f});
  initialise(residual);
  const Tensor x = random_tensor({12, 6}, 1), branch = random_tensor({12, 6}, 2);
  const auto f = [&](const Variable&) -> Variable { return branch.clone(); };
  nn::ForwardContext context = training();
  const Tensor y = residual(x, kOffsets, context, f).value();
  EXPECT_EQ(context.next_site, 2u);

  const Dropout drawn{.rate = 0.5f, .seed = 4, .step = 9, .site = 0};
  Tensor sums = x.clone();
  int dropped = 0;
  for (int64_t s = 0; s < kOffsets.sequences(); ++s) {
    const bool kept = drawn.keeps(static_cast<uint32_t>(s), 0);
    dropped += kept ? 0 : 1;
    for (int64_t i = kOffsets.begin(s) * 6; i < kOffsets.end(s) * 6; ++i)
      sums.data()[i] += kept ? 2 * branch.data()[i] : 0;
  }
  EXPECT_GT(dropped, 0);
  EXPECT_LT(dropped, kOffsets.sequences());
  const Tensor expected = GetParam() == NormPlacement::post
                              ? layer_norm(sums, Tensor::full({6}, 1), Tensor::zeros({6}), 1e-5f).value()
                              : sums;
  for (size_t i = 0; i < y.values().size(); ++i) EXPECT_NEAR(y.values()[i], expected.values()[i], 1e-5f);

  nn::ForwardContext inference;
  const Tensor without = residual(x, kOffsets, inference, f).value();
  const nn::Residual plain({.norm = {.features = 6}, .placement = GetParam()});
  initialise(plain);
  EXPECT_TRUE(same(without, plain(x, kOffsets, inference, f).value()));
}

TEST_P(DropPathIn, GradientsOfAnEncoder) {
  const nn::Encoder encoder(stack(GetParam(), 0.6f));
  nn::initialise(encoder, 5);
  encoder.visit([](const std::string&, const nn::Parameter& parameter) {
    parameter.variable.set_requires_grad(false);  // the check is of the input alone
  });
  check_gradients({.function =
                       [&](const auto& in) {
                         nn::ForwardContext context = training();
                         return encoder(in[0], kOffsets, context);
                       },
                   .inputs = {random_tensor({12, 12}, 1)},
                   .tolerance = 2e-3});
}

TEST_P(DropPathIn, GradientsOfADecoder) {
  const nn::Decoder decoder(stack(GetParam(), 0.6f));
  nn::initialise(decoder, 5);
  const Offsets memory = Offsets::uniform(kOffsets.sequences(), 2);
  check_gradients({.function =
                       [&](const auto& in) {
                         nn::ForwardContext context = training();
                         return decoder(in[0], kOffsets, {in[1], memory}, context);
                       },
                   .inputs = {random_tensor({12, 12}, 1), random_tensor({10, 12}, 2)},
                   .tolerance = 2e-3});
}

// Dropout inside and after the sublayers is on: recomputation must draw the same numbers at every site.
TEST_P(DropPathIn, SameBitsForAnyThreadsAndWithRecomputation) {
  const nn::Encoder encoder(stack(GetParam(), 0.5f, 0.2f));
  nn::initialise(encoder, 5);
  const Tensor x = random_tensor({12, 12}, 1), coefficients = random_tensor({12, 12}, 2);
  std::map<std::string, Tensor> first;
  const int before = threads();
  for (const auto& [count, recompute] : {std::pair{1, false}, {2, false}, {2, true}, {1, true}}) {
    set_threads(count);
    encoder.visit([](const std::string&, const nn::Parameter& parameter) {
      Variable variable = parameter.variable;
      variable.clear_grad();
    });
    nn::ForwardContext context = training(recompute);
    Tape tape;
    const Variable y = encoder(x, kOffsets, context);
    std::map<std::string, Tensor> found{{"result", y.value().clone()}};
    tape.backward(weighted_sum(y, coefficients));
    encoder.visit([&](const std::string& name, const nn::Parameter& parameter) {
      found[name] = parameter.variable.grad().clone();
    });
    if (first.empty()) first = found;
    for (const auto& [name, tensor] : first) {
      EXPECT_TRUE(same(found.at(name), tensor))
          << name << ", " << count << " threads, recompute " << recompute;
    }
  }
  set_threads(before);
  // It does something.
  const nn::Encoder plain(stack(GetParam(), 0, 0.2f));
  nn::initialise(plain, 5);
  nn::ForwardContext context = training();
  EXPECT_FALSE(same(plain(x, kOffsets, context).value(), first.at("result")));
}

// A worker that has the sequences from 2 on draws the same for them.
TEST_P(DropPathIn, DependsOnTheSequenceIndexInTheFullBatch) {
  const nn::Encoder encoder(stack(GetParam(), 0.5f));
  nn::initialise(encoder, 5);
  const Tensor x = random_tensor({12, 12}, 1);
  nn::ForwardContext all = training(), part = training();
  part.first_sequence = 2;
  const Tensor whole = encoder(x, kOffsets, all).value();
  const Tensor rest = encoder(x.slice_rows(5, 7), Offsets({0, 1, 5, 7}), part).value();
  EXPECT_TRUE(same(rest, whole.slice_rows(5, 7)));
}

INSTANTIATE_TEST_SUITE_P(Norms, DropPathIn, ::testing::Values(NormPlacement::post, NormPlacement::pre),
                         [](const auto& norm) {
                           return std::string(norm.param == NormPlacement::post ? "post" : "pre");
                         });

}  // namespace
