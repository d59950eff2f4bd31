// Random changes of training images.

#include "qkv/data/images/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <vector>

#include "qkv/base/error.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::data;
using namespace qkv::testing;

constexpr ImageExtents kExtents{.channels = 2, .height = 3, .width = 4};

// 1, 2, 3, ...: every pixel differs.
std::vector<uint8_t> counted(const ImageExtents& extents) {
  std::vector<uint8_t> pixels(static_cast<size_t>(extents.channels * extents.height * extents.width));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i + 1);
  return pixels;
}

std::vector<uint8_t> augmented(const std::vector<uint8_t>& pixels, const ImageExtents& extents,
                               const AugmentOptions& options, const ImageKey& key) {
  std::vector<uint8_t> result(pixels.size());
  augment(pixels, extents, options, key, result);
  return result;
}

TEST(Augment, NothingIsChangedByDefault) {
  EXPECT_EQ(augmented(counted(kExtents), kExtents, {}, {.seed = 3, .image = 5}), counted(kExtents));
}

TEST(Augment, FlipsEachRow) {
  const std::vector<uint8_t> expected{4,  3,  2,  1,  8,  7,  6,  5,  12, 11, 10, 9,
                                      16, 15, 14, 13, 20, 19, 18, 17, 24, 23, 22, 21};
  EXPECT_EQ(augmented(counted(kExtents), kExtents, {.flip = 1}, {.seed = 3}), expected);
  int flipped = 0;
  for (int64_t image = 0; image < 1000; ++image)
    flipped +=
        augmented(counted(kExtents), kExtents, {.flip = 0.3f}, {.seed = 1, .image = image}) == expected;
  EXPECT_NEAR(flipped, 300, 60);  // four standard deviations
}

// Large enough that no two mirrored crops are the same.
constexpr ImageExtents kCropped{.channels = 2, .height = 4, .width = 5};

// A crop of the extended image, computed with two loops.
std::vector<uint8_t> cropped(const std::vector<uint8_t>& pixels, int64_t top, int64_t left, CropFill fill) {
  std::vector<uint8_t> result;
  const auto place = [&](int64_t i, int64_t count) -> int64_t {
    if (fill == CropFill::zero) return i >= 0 && i < count ? i : -1;
    return i < 0 ? -i : i >= count ? 2 * count - 2 - i : i;
  };
  for (int64_t c = 0; c < kCropped.channels; ++c) {
    for (int64_t y = top; y < top + kCropped.height; ++y) {
      for (int64_t x = left; x < left + kCropped.width; ++x) {
        const int64_t row = place(y, kCropped.height), column = place(x, kCropped.width);
        result.push_back(
            row < 0 || column < 0
                ? uint8_t{0}
                : pixels[static_cast<size_t>((c * kCropped.height + row) * kCropped.width + column)]);
      }
    }
  }
  return result;
}

TEST(Augment, EveryCropIsEquallyLikely) {
  for (const CropFill fill : {CropFill::zero, CropFill::reflect}) {
    const std::vector<uint8_t> pixels = counted(kCropped);
    std::map<std::vector<uint8_t>, int> places;
    for (int64_t top = -2; top <= 2; ++top) {
      for (int64_t left = -2; left <= 2; ++left) places[cropped(pixels, top, left, fill)] = 0;
    }
    ASSERT_EQ(places.size(), 25u);
    constexpr int kDraws = 5000;
    for (int64_t image = 0; image < kDraws; ++image) {
      const auto found = places.find(augmented(pixels, kCropped, {.crop_padding = 2, .crop_fill = fill},
                                               {.seed = 9, .epoch = 4, .image = image}));
      ASSERT_NE(found, places.end());
      ++found->second;
    }
    for (const auto& [crop, count] : places) EXPECT_NEAR(count, kDraws / 25, 60);
  }
}

TEST(Augment, ErasesARectangle) {
  constexpr ImageExtents kLarge{.channels = 2, .height = 20, .width = 30};
  const std::vector<uint8_t> pixels(2 * 20 * 30, 77);
  double area = 0;
  std::set<uint8_t> values;
  constexpr int kImages = 400;
  for (int64_t image = 0; image < kImages; ++image) {
    const auto changed = augmented(pixels, kLarge, {.erase = 1}, {.seed = 2, .image = image});
    int64_t top = 20, bottom = -1, left = 30, right = -1, count = 0;
    for (int64_t y = 0; y < 20; ++y) {
      for (int64_t x = 0; x < 30; ++x) {
        const uint8_t first = changed[static_cast<size_t>(y * 30 + x)];
        if (first == 77) continue;
        values.insert(first);
        ++count;
        top = std::min(top, y), bottom = std::max(bottom, y);
        left = std::min(left, x), right = std::max(right, x);
      }
    }
    const int64_t rectangle = (bottom - top + 1) * (right - left + 1);
    EXPECT_GE(rectangle, 8);                                     // 0.02 of 600 pixels, less rounding
    EXPECT_LE(rectangle, 0.4 * 600 * 1.1);                       // likewise
    EXPECT_GE(count, 0.9 * static_cast<double>(rectangle) - 3);  // random pixels may be 77 too
    area += static_cast<double>(rectangle) / 600;
  }
  EXPECT_GT(values.size(), 200u);
  EXPECT_NEAR(area / kImages, 0.185, 0.025);  // uniform in 0.02 to 0.4, but large ones fit less often
  int erased = 0;
  for (int64_t image = 0; image < 1000; ++image)
    erased += augmented(pixels, kLarge, {.erase = 0.25f}, {.seed = 2, .image = image}) != pixels;
  EXPECT_NEAR(erased, 250, 55);
}

TEST(Augment, IsAFunctionOfSeedEpochAndImage) {
  const AugmentOptions options{.crop_padding = 2, .flip = 0.5f, .erase = 0.5f};
  const ImageKey key{.seed = 1, .epoch = 2, .image = 3};
  const std::vector<uint8_t> pixels = counted(kExtents), first = augmented(pixels, kExtents, options, key);
  EXPECT_EQ(augmented(pixels, kExtents, options, key), first);
  std::set<std::vector<uint8_t>> others;
  for (uint64_t i = 0; i < 20; ++i) {
    const auto other = static_cast<int64_t>(i) + 10;
    others.insert(augmented(pixels, kExtents, options, {.seed = i + 10, .epoch = 2, .image = 3}));
    others.insert(augmented(pixels, kExtents, options, {.seed = 1, .epoch = other, .image = 3}));
    others.insert(augmented(pixels, kExtents, options, {.seed = 1, .epoch = 2, .image = other}));
  }
  EXPECT_GT(others.size(), 30u);
}

TEST(Augment, OptionsDoNotAffectEachOther) {
  const std::vector<uint8_t> pixels = counted(kExtents);
  for (int64_t image = 0; image < 50; ++image) {
    const ImageKey key{.seed = 8, .image = image};
    const auto crop = augmented(pixels, kExtents, {.crop_padding = 2}, key);
    const auto both = augmented(pixels, kExtents, {.crop_padding = 2, .flip = 1}, key);
    EXPECT_EQ(augmented(crop, kExtents, {.flip = 1}, {}), both);
  }
}

// Beta(a, a) has the mean 1/2 and the variance 1 / (4 (2 a + 1)).
TEST(Mixup, WeightsHaveTheMomentsOfBeta) {
  for (const float alpha : {0.1f, 0.4f, 1.0f, 3.0f}) {
    double sum = 0, squares = 0;
    constexpr int kDraws = 20000;
    for (int64_t image = 0; image < kDraws; ++image) {
      const double weight = static_cast<double>(mixup_weight(alpha, {.seed = 5, .epoch = 1, .image = image}));
      EXPECT_GE(weight, 0);
      EXPECT_LE(weight, 1);
      sum += weight;
      squares += (weight - 0.5) * (weight - 0.5);
    }
    const double variance = 1 / (4 * (2 * static_cast<double>(alpha) + 1));
    EXPECT_NEAR(sum / kDraws, 0.5, 4 * std::sqrt(variance / kDraws)) << alpha;
    EXPECT_NEAR(squares / kDraws, variance, 0.05 * variance) << alpha;
  }
  EXPECT_TRUE(std::isfinite(mixup_weight(0.001f, {.seed = 5})));
}

// Beta(1/2, 1/2) is the arcsine distribution: P(x < sin^2(pi q / 2)) = q.
TEST(Mixup, WeightsOfOneHalfAreArcsineDistributed) {
  std::vector<double> weights;
  constexpr int kDraws = 10000;
  for (int64_t image = 0; image < kDraws; ++image)
    weights.push_back(static_cast<double>(mixup_weight(0.5f, {.seed = 6, .image = image})));
  std::ranges::sort(weights);
  for (const double q : {0.1, 0.25, 0.5, 0.75, 0.9}) {
    const double sine = std::sin(std::numbers::pi * q / 2);
    const auto below = std::ranges::lower_bound(weights, sine * sine) - weights.begin();
    EXPECT_NEAR(static_cast<double>(below) / kDraws, q, 0.02);
  }
}

TEST(AugmentOptions, NameTheFieldThatIsWrong) {
  const auto message = [](const AugmentOptions& options) {
    return message_of<UsageError>([&] { options.validate(28, 20); });
  };
  EXPECT_NE(message({.crop_padding = 20}).find("augment.crop_padding: expected 0 to 19"), std::string::npos);
  EXPECT_NE(message({.flip = 1.5f}).find("augment.flip: expected 0 to 1, found 1.5"), std::string::npos);
  EXPECT_NE(message({.erase = -1}).find("augment.erase: expected 0 to 1, found -1"), std::string::npos);
  EXPECT_NE(message({.erase_most = 0.01f}).find("augment.erase_most"), std::string::npos);
  EXPECT_NE(message({.erase_aspect = 0}).find("augment.erase_aspect"), std::string::npos);
}

}  // namespace
