// Folders of image encoders written by transformers give its results (tests/golden/families.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "qkv/base/parallel.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/position_grid.h"
#include "qkv/ops/tape.h"
#include "tests/models/family_case.h"
#include "tests/support/devices.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using namespace qkv::testing;

struct ImageCase {
  explicit ImageCase(const std::string& name)
      : folder(std::filesystem::path(QKV_TEST_DATA) / "models" / "golden" / name),
        expected((folder / "expected.safetensors").string()),
        model(load_image_encoder(folder)) {}
  std::filesystem::path folder;
  Golden expected;
  std::unique_ptr<ImageEncoder> model;
};

// Compares the model's outputs for a file's pixels with the file's other tensors.
void expect_numbers(const ImageEncoder& model, const Golden& expected, OtherSizes other_sizes) {
  nn::ForwardContext context;
  int layers = 0;
  context.observer = [&](const std::string&, const std::vector<Tensor>& weights) {
    const Tensor all = expected[concat("attention.", layers++)];
    const int64_t each = all.numel() / std::ssize(weights);
    for (size_t image = 0; image < weights.size(); ++image) {
      expect_close(flat(weights[image]), all.slice_rows(static_cast<int64_t>(image) * each, each),
                   "attention", 2e-6);
    }
  };
  const Tensor pixels = expected["pixels"];
  const Variable hidden = model(pixels, context, other_sizes);
  const int64_t tokens = model.config().tokens({pixels.dim(2), pixels.dim(3)});
  const Offsets offsets = Offsets::uniform(pixels.dim(0), tokens);
  EXPECT_EQ(hidden.value().rows(), offsets.tokens());
  EXPECT_EQ(layers, 2);
  if (expected.has("hidden")) expect_close(flat(hidden.value()), expected["hidden"], "hidden", 5e-6);
  if (expected.has("pooled")) {
    expect_close(flat(model.pooled(hidden, offsets).value()), expected["pooled"], "pooled", 5e-6);
    EXPECT_THROW(model.classifier_logits(hidden, offsets), UsageError);
  } else {
    expect_close(flat(model.classifier_logits(hidden, offsets).value()), expected["labels"], "labels", 5e-6);
    EXPECT_THROW(model.pooled(hidden, offsets), UsageError);
  }
}

class ImageFamilies : public ::testing::TestWithParam<std::string> {};

TEST_P(ImageFamilies, MatchTransformers) {
  const ImageCase one(GetParam());
  for_each_device([&](Device device) {
    expect_numbers(*load_image_encoder(one.folder, {.device = device}), one.expected, OtherSizes::refused);
  });
}

TEST_P(ImageFamilies, MatchTransformersForOtherImageSizes) {
  const ImageCase one(GetParam());
  for_each_device([&](Device device) {
    expect_numbers(*load_image_encoder(one.folder, {.device = device}),
                   Golden((one.folder / "resized.safetensors").string()), OtherSizes::interpolated);
  });
}

TEST_P(ImageFamilies, SameBitsInAnyBatchAndForAnyThreads) {
  const ImageCase one(GetParam());
  const Tensor pixels = one.expected["pixels"];
  nn::ForwardContext context;
  const Tensor together = (*one.model)(pixels, context).value();
  const int64_t tokens = one.model->config().tokens();
  const int before = threads();
  for (const int count : {1, 3}) {
    set_threads(count);
    for (int64_t i = 0; i < pixels.dim(0); ++i) {
      const Tensor alone = (*one.model)(pixels.slice_rows(i, 1), context).value();
      EXPECT_TRUE(std::ranges::equal(alone.values(), together.slice_rows(i * tokens, tokens).values()));
    }
  }
  set_threads(before);
}

TEST_P(ImageFamilies, RoundTrip) {
  const ImageCase one(GetParam());
  const Scratch copy;
  save_image_encoder(copy.path(), *one.model, family_of(one.folder));
  const auto again = load_image_encoder(copy.path());
  EXPECT_EQ(again->config().labels, one.model->config().labels);
  expect_same_tensors_without_prefix(copy.path(), one.folder);
}

INSTANTIATE_TEST_SUITE_P(Families, ImageFamilies,
                         ::testing::Values("vit_images", "vit_base", "deit_images", "deit_teacher",
                                           "clip_vision_model", "clip_vision_model_plain",
                                           "siglip_vision_model"));

TEST(Patchify, CutsImagesAsSwinDoes) {
  const Tensor image = random_tensor({3, 224, 224}, 1);
  const Tensor patches = patchify(image, 4);
  ASSERT_EQ(patches.shape(), (Shape{56, 56, 48}));
  for (const auto& [y, x, c, row, column] :
       {std::array<int64_t, 5>{0, 0, 0, 0, 0}, {7, 31, 2, 3, 1}, {55, 55, 1, 0, 3}}) {
    EXPECT_EQ(patches.data()[(y * 56 + x) * 48 + (c * 4 + row) * 4 + column],
              image.data()[(c * 224 + y * 4 + row) * 224 + x * 4 + column]);
  }
  const Tensor two = random_tensor({2, 3, 8, 12}, 2);
  const Tensor cut = patchify(two, 4);
  EXPECT_EQ(cut.shape(), (Shape{2, 2, 3, 48}));
  EXPECT_TRUE(std::ranges::equal(cut.slice_rows(1, 1).values(),
                                 patchify(two.slice_rows(1, 1).reshape({3, 8, 12}), 4).values()));
  EXPECT_THROW(patchify(image, 5), ShapeError);
  EXPECT_THROW(patchify(random_tensor({8, 8}, 1), 4), ShapeError);
}

TEST(ImageEncoder, RefusesImagesOfAnotherSize) {
  const ImageCase one("vit_images");
  nn::ForwardContext context;
  EXPECT_THROW((*one.model)(random_tensor({1, 3, 12, 16}, 1), context), ShapeError);
  EXPECT_THROW((*one.model)(random_tensor({3, 12, 12}, 1), context), ShapeError);
  for (const Shape& shape : {Shape{1, 3, 12, 18}, {1, 2, 12, 16}, {3, 12, 16}, {1, 3, 0, 12}}) {
    EXPECT_THROW((*one.model)(Tensor::zeros(shape), context, OtherSizes::interpolated), ShapeError) << shape;
  }
  // The positions would get no gradient.
  const auto learner = load_image_encoder(one.folder, {.trainable = true});
  Tape tape;
  EXPECT_THROW((*learner)(random_tensor({1, 3, 12, 16}, 1), context, OtherSizes::interpolated), UsageError);
}

TEST(InterpolatePositions, KeepsLinesAndOriginalRows) {
  Tensor positions = Tensor::empty({2 + 3 * 5, 1});
  positions.values()[0] = 70;
  positions.values()[1] = -9;
  for (int64_t y = 0; y < 3; ++y) {
    for (int64_t x = 0; x < 5; ++x) positions.data()[2 + y * 5 + x] = static_cast<float>(x);
  }
  const Tensor wide = interpolate_positions(positions, 2, {3, 5}, {2, 15});
  ASSERT_EQ(wide.shape(), (Shape{2 + 2 * 15, 1}));
  EXPECT_EQ(wide.data()[0], 70);
  EXPECT_EQ(wide.data()[1], -9);
  // New position i is at (i + 1/2) / 3 - 1/2. A cubic with a = -3/4 is exact only at the old positions.
  for (const int64_t i : {4, 7, 10}) {
    EXPECT_NEAR(wide.data()[2 + i], static_cast<double>(i - 1) / 3, 1e-6);
    EXPECT_NEAR(wide.data()[2 + 15 + i], static_cast<double>(i - 1) / 3, 1e-6);
  }
  EXPECT_TRUE(
      std::ranges::equal(interpolate_positions(positions, 2, {3, 5}, {3, 5}).values(), positions.values()));
  EXPECT_THROW(interpolate_positions(positions, 1, {3, 5}, {3, 5}), ShapeError);
}

TEST(SinusoidalGrid, IsSineAndCosineOfColumnAndRow) {
  const Tensor grid = sinusoidal_grid({3, 5}, 10);
  ASSERT_EQ(grid.shape(), (Shape{15, 10}));
  for (int64_t y = 0; y < 3; ++y) {
    for (int64_t x = 0; x < 5; ++x) {
      const auto at = [&](int64_t feature) { return double{grid.at(y * 5 + x, feature)}; };
      const auto column = static_cast<double>(x), row = static_cast<double>(y);
      EXPECT_NEAR(at(0), std::sin(column), 1e-6);
      EXPECT_NEAR(at(1), std::sin(column / 10), 1e-6);
      EXPECT_NEAR(at(2), std::cos(column), 1e-6);
      EXPECT_NEAR(at(3), std::cos(column / 10), 1e-6);
      EXPECT_NEAR(at(4), std::sin(row), 1e-6);
      EXPECT_NEAR(at(7), std::cos(row / 10), 1e-6);
      EXPECT_EQ(at(8), 0);
      EXPECT_EQ(at(9), 0);
    }
  }
  EXPECT_THROW(sinusoidal_grid({0, 5}, 8), UsageError);
  EXPECT_THROW(sinusoidal_grid({3, 5}, 0), UsageError);
}

}  // namespace
