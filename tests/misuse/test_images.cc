// Images: invalid sizes, pixels and bytes.

#include <gtest/gtest.h>

#include <climits>
#include <limits>

#include "qkv/data/image.h"
#include "qkv/data/resize.h"
#include "tests/support/misuse.h"

namespace {

using namespace qkv::data;
using namespace qkv::testing;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max(), kLowest = std::numeric_limits<int64_t>::min();

TEST(MisusedImages, Pixels) {
  const Image none, few{.height = 2, .width = 3, .pixels = std::vector<uint8_t>(17)},
      many{.height = 2, .width = 3, .pixels = std::vector<uint8_t>(19)},
      negative{.height = -2, .width = -3, .pixels = std::vector<uint8_t>(18)},
      huge{.height = kHuge, .width = kHuge, .pixels = std::vector<uint8_t>(18)};
  for (const Image& image : {none, few, many, negative, huge}) {
    expect_refusal("image", "png", [&] { return encode_png(image).size(); });
    expect_refusal("image", "jpeg", [&] { return encode_jpeg(image).size(); });
    expect_refusal("image", "center_crop", [&] { center_crop(image, 1, 1); });
    for (const auto resampling : {Resampling::nearest, Resampling::bilinear, Resampling::lanczos})
      expect_refusal("image", "resize", [&] { resize(image, 4, 4, resampling); });
  }
}

TEST(MisusedImages, Sizes) {
  const Image good{.height = 2, .width = 3, .pixels = std::vector<uint8_t>(18, 200)};
  for (const int64_t size : {int64_t{0}, int64_t{-1}, kMaxImagePixels + 1, kHuge, kLowest}) {
    for (const auto resampling : {Resampling::nearest, Resampling::bicubic}) {
      expect_refusal("", "height", [&] { resize(good, size, 3, resampling); });
      expect_refusal("", "width", [&] { resize(good, 2, size, resampling); });
    }
    expect_refusal("", "height", [&] { center_crop(good, size, 3); });
    expect_refusal("", "width", [&] { center_crop(good, 2, size); });
  }
  for (const int number : {-1, 6, 255})
    expect_refusal("", "resampling", [&] { resize(good, 4, 4, static_cast<Resampling>(number)); });
  for (const int quality : {0, -1, 101, INT_MAX, INT_MIN})
    expect_refusal("JPEG", "quality", [&] { return encode_jpeg(good, quality).size(); });
  misuses += 2;
  EXPECT_EQ(resize(good, 2, 3, Resampling::lanczos), good);
  EXPECT_EQ(center_crop(good, 2, 3), good);
}

TEST(MisusedImages, Bytes) {
  const Image good{.height = 2, .width = 3, .pixels = std::vector<uint8_t>(18, 200)};
  const std::string png = encode_png(good), jpeg = encode_jpeg(good);
  for (const std::string& bytes :
       {std::string(), std::string("\x89PNG\r\n\x1A\n"), std::string("\xFF\xD8\xFF"), std::string("GIF89a"),
        std::string("RIFF"), std::string(100, '\0'), png.substr(0, png.size() / 2), jpeg.substr(0, 30)})
    expect_refusal("cat", "bytes", [&] { decode_image(bytes, "cat"); });
  expect_refusal("", "no file", [] { read_image("/no/such/file"); });
  expect_refusal("", "a folder", [] { read_image("/tmp"); });
  ++misuses;
  EXPECT_EQ(decode_image(png, "png"), good);
}

}  // namespace
