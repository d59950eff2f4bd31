// Patch dropout: the selection of patches, and their positions in the encoder.

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "qkv/models/image_encoder.h"
#include "qkv/models/patch_dropout.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using namespace qkv::testing;

constexpr kernels::Dropout kHalf{.rate = 0.5f, .seed = 9, .step = 3, .site = 1};

TEST(PatchDropout, CountsPatches) {
  EXPECT_EQ(kept_count(49, 0), 49);
  EXPECT_EQ(kept_count(49, 0.5f), 25);  // 24.5
  EXPECT_EQ(kept_count(196, 0.25f), 147);
  EXPECT_EQ(kept_count(4, 0.99f), 1);
}

TEST(PatchDropout, SamplesWithoutReplacement) {
  constexpr int64_t kImages = 4000, kPatches = 9;
  const std::vector<int32_t> kept = kept_patches(kImages, kPatches, kHalf);
  ASSERT_EQ(std::ssize(kept), kImages * 5);
  std::vector<double> single(kPatches), pairs(kPatches * kPatches);
  for (int64_t image = 0; image < kImages; ++image) {
    std::vector<int32_t> own(kept.begin() + image * 5, kept.begin() + image * 5 + 5);
    for (int32_t& patch : own) patch -= static_cast<int32_t>(image * kPatches);
    EXPECT_GE(own.front(), 0);
    EXPECT_LT(own.back(), kPatches);
    for (size_t i = 1; i < own.size(); ++i) ASSERT_LT(own[i - 1], own[i]) << image;
    for (const int32_t a : own) {
      ++single[static_cast<size_t>(a)];
      for (const int32_t b : own) pairs[static_cast<size_t>(a * kPatches + b)] += a < b ? 1 : 0;
    }
  }
  // Five of nine, and two of them in 5/9 * 4/8 of the images: five standard deviations of a binomial count.
  for (const double count : single) EXPECT_NEAR(count / kImages, 5.0 / 9, 0.04);
  for (int a = 0; a < kPatches; ++a) {
    for (int b = a + 1; b < kPatches; ++b)
      EXPECT_NEAR(pairs[static_cast<size_t>(a * kPatches + b)] / kImages, 5.0 / 18, 0.036) << a << " " << b;
  }
}

TEST(PatchDropout, IsAFunctionOfSeedStepSiteAndImage) {
  const std::vector<int32_t> whole = kept_patches(6, 16, kHalf);
  EXPECT_EQ(kept_patches(6, 16, kHalf), whole);
  kernels::Dropout last = kHalf;
  last.first_row = 4;
  std::vector<int32_t> part = kept_patches(2, 16, last);
  for (int32_t& patch : part) patch += 4 * 16;
  EXPECT_TRUE(std::ranges::equal(part, std::span(whole).subspan(4 * 8)));
  for (auto change : {&kernels::Dropout::step, &kernels::Dropout::site}) {
    kernels::Dropout other = kHalf;
    ++(other.*change);
    EXPECT_NE(kept_patches(6, 16, other), whole);
  }
  kernels::Dropout other = kHalf;
  ++other.seed;
  EXPECT_NE(kept_patches(6, 16, other), whole);
}

// An encoder whose sublayers add nothing, so that a token's hidden state is a function of that token alone.
class PatchDropoutEncoder : public ::testing::TestWithParam<bool> {
 protected:
  static ImageEncoderConfig config(float rate) {
    ImageEncoderConfig result{
        .channels = 1, .height = 12, .width = 16, .patch = 4, .distilled = GetParam(), .patch_dropout = rate};
    result.encoder = {
        .layers = nn::alike(2, {.d_model = 16, .heads = 2, .d_ff = 24, .norm = nn::NormPlacement::pre})};
    result.labels = {"a", "b"};
    return result;
  }
  static void initialise(const ImageEncoder& model, bool sublayers) {
    nn::initialise(model, 3);
    if (sublayers) return;
    model.visit([&](const std::string& name, const nn::Parameter& parameter) {
      if (name.find(".out_proj.") != std::string::npos || name.find(".fc2.") != std::string::npos) {
        Variable last = parameter.variable;
        last.set_value(Tensor::zeros(last.shape()));
      }
    });
  }
};

TEST_P(PatchDropoutEncoder, ReadsKeptPatchesAtTheirPositions) {
  const ImageEncoder model(config(0.5f)), whole_model(config(0));
  initialise(model, false);
  initialise(whole_model, false);
  const Tensor pixels = random_tensor({3, 1, 12, 16}, 4);
  nn::ForwardContext training{.training = true, .seed = 9, .step = 3}, plain{.training = true, .seed = 9};
  const Tensor hidden = model(pixels, training).value(), whole = whole_model(pixels, plain).value();
  const int64_t own = model.config().own_tokens(), tokens = own + 6, all = own + 12;
  ASSERT_EQ(hidden.shape(), Shape({3 * tokens, 16}));
  ASSERT_EQ(whole.shape(), Shape({3 * all, 16}));
  const std::vector<int32_t> kept = kept_patches(3, 12, {.rate = 0.5f, .seed = 9, .step = 3, .site = 0});
  const auto expect_row = [&](int64_t row, int64_t of_whole) {
    EXPECT_TRUE(std::ranges::equal(hidden.slice_rows(row, 1).clone().values(),
                                   whole.slice_rows(of_whole, 1).clone().values()))
        << row << " is not " << of_whole;
  };
  for (int64_t image = 0; image < 3; ++image) {
    for (int64_t i = 0; i < own; ++i) expect_row(image * tokens + i, image * all + i);
    for (int64_t i = 0; i < 6; ++i) {
      const int64_t patch = kept[static_cast<size_t>(image * 6 + i)] - image * 12;
      expect_row(image * tokens + own + i, image * all + own + patch);
    }
  }
}

TEST_P(PatchDropoutEncoder, KeepsAllPatchesOutsideTraining) {
  const ImageEncoder model(config(0.5f)), without(config(0));
  initialise(model, true);
  initialise(without, true);
  const Tensor pixels = random_tensor({2, 1, 12, 16}, 5);
  nn::ForwardContext first, second;
  EXPECT_TRUE(
      std::ranges::equal(model(pixels, first).value().values(), without(pixels, second).value().values()));
}

// Workers that share a batch draw the patches that one worker draws.
TEST_P(PatchDropoutEncoder, KeepsTheSamePatchesInPartsOfABatch) {
  const ImageEncoder model(config(0.5f));
  initialise(model, true);
  const Tensor pixels = random_tensor({3, 1, 12, 16}, 6);
  nn::ForwardContext whole{.training = true, .seed = 2, .step = 8}, part = whole;
  part.first_sequence = 1;
  const Tensor hidden = model(pixels, whole).value(), last = model(pixels.slice_rows(1, 2), part).value();
  const int64_t tokens = model.config().own_tokens() + 6;
  EXPECT_TRUE(std::ranges::equal(last.values(), hidden.slice_rows(tokens, 2 * tokens).values()));
}

INSTANTIATE_TEST_SUITE_P(ClassAndDistillationTokens, PatchDropoutEncoder, ::testing::Bool());

TEST(PatchDropout, RefusesOtherRates) {
  for (const float rate : {1.0f, -0.5f}) {
    ImageEncoderConfig config{.patch_dropout = rate};
    config.encoder = {.layers = nn::alike(1, {.d_model = 16, .heads = 2, .d_ff = 24})};
    const std::string message = message_of<UsageError>([&] { config.validate(); });
    EXPECT_NE(message.find("patch_dropout"), std::string::npos) << message;
  }
}

}  // namespace
