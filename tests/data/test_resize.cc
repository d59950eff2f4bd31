// Resizing, compared with Pillow's pixels (tests/golden/images.py).

#include "qkv/data/resize.h"

#include <gtest/gtest.h>

#include <charconv>

#include "qkv/base/error.h"

namespace {

using namespace qkv;
using namespace qkv::data;

const std::filesystem::path kPictures = std::filesystem::path(QKV_TEST_DATA) / "data" / "golden" / "images";

TEST(Resize, GivesPillowsPixels) {
  const Image image = read_image(kPictures / "rgb.png"),
              tall = read_image(kPictures / "resized_tall_60x23.png");
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kPictures)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("resized_")) continue;
    const bool of_tall = name.starts_with("resized_tall_");
    const auto resampling = of_tall ? Resampling::bilinear : static_cast<Resampling>(name[8] - '0');
    const Image expected = read_image(entry.path());
    EXPECT_EQ(resize(of_tall ? tall : image, expected.height, expected.width, resampling), expected) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 22);
}

TEST(Resize, KeepsWhatHasTheSizeAlready) {
  const Image image = read_image(kPictures / "rgba.png");
  for (int k = 0; k <= 5; ++k) {
    EXPECT_EQ(resize(image, image.height, image.width, static_cast<Resampling>(k)), image);
  }
}

TEST(Resize, OfOnePixelIsThatColourEverywhere) {
  const Image image{.height = 1, .width = 1, .pixels = {9, 250, 77}};
  for (int k = 0; k <= 5; ++k) {
    const Image large = resize(image, 3, 5, static_cast<Resampling>(k));
    ASSERT_EQ(large.pixels.size(), 45u);
    for (size_t i = 0; i < 45; ++i) EXPECT_EQ(large.pixels[i], image.pixels[i % 3]) << k;
  }
}

TEST(Resize, RefusesSizesThatCannotBe) {
  const Image image{.height = 1, .width = 1, .pixels = {9, 250, 77}};
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{0, 4}, {4, -1}, {1 << 20, 1 << 20}}) {
    EXPECT_THROW(resize(image, height, width, Resampling::bicubic), UsageError);
    EXPECT_THROW(resize(image, height, width, Resampling::nearest), UsageError);
    EXPECT_THROW(center_crop(image, height, width), UsageError);
  }
  EXPECT_THROW(resize(image, 2, 2, static_cast<Resampling>(6)), UsageError);
}

TEST(CenterCrop, IsTheMiddleWithBlackAround) {
  Image image{.height = 3, .width = 4, .pixels = std::vector<uint8_t>(36)};
  for (size_t i = 0; i < 36; ++i) image.pixels[i] = static_cast<uint8_t>(i + 1);
  const Image middle = center_crop(image, 1, 2);
  EXPECT_EQ(middle.pixels, (std::vector<uint8_t>{16, 17, 18, 19, 20, 21}));
  // An odd difference: one row of black above, and a column cut off on each side.
  const Image tall = center_crop(image, 4, 2);
  EXPECT_EQ(std::vector<uint8_t>(tall.row(0), tall.row(0) + 6), std::vector<uint8_t>(6));
  EXPECT_EQ(std::vector<uint8_t>(tall.row(1), tall.row(1) + 6), (std::vector<uint8_t>{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(std::vector<uint8_t>(tall.row(3), tall.row(3) + 6),
            (std::vector<uint8_t>{28, 29, 30, 31, 32, 33}));
  EXPECT_EQ(center_crop(image, 3, 4), image);
}

// The centre of a resized image has the bits that it has in the whole, and needs no more memory.
TEST(ResizeCenter, IsTheCropOfTheWhole) {
  Image image{.height = 29, .width = 41, .pixels = std::vector<uint8_t>(29 * 41 * 3)};
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * i % 251);
  for (const Resampling filter : {Resampling::nearest, Resampling::lanczos, Resampling::bilinear,
                                  Resampling::bicubic, Resampling::box, Resampling::hamming}) {
    for (const auto& [height, width] :
         {std::pair<int64_t, int64_t>{13, 18}, {29, 41}, {29, 60}, {70, 41}, {5, 90}, {66, 9}}) {
      const Image whole = resize(image, height, width, filter);
      for (const auto& [down, across] : {std::pair<int64_t, int64_t>{5, 9}, {4, 8}, {height, 9}, {5, width}})
        EXPECT_EQ(resize_center(image, height, width, filter, down, across),
                  center_crop(whole, down, across));
    }
  }
  const Image line{.height = 1, .width = 3000, .pixels = std::vector<uint8_t>(9000, 99)};
  EXPECT_EQ(resize_center(line, 224, 224 * 3000, Resampling::bicubic, 224, 224),
            (Image{.height = 224, .width = 224, .pixels = std::vector<uint8_t>(224 * 224 * 3, 99)}));
  EXPECT_THROW(resize_center(image, 9, 9, Resampling::bicubic, 10, 9), UsageError);
  EXPECT_THROW(resize_center(image, 9, 9, Resampling::bicubic, 0, 9), UsageError);
}

}  // namespace
