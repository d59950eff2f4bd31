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

TEST(MisusedImages, Pixels) {
  const Image none, few{.height = 2, .width = 3, .pixels = std::vector<uint8_t>(17)},
      many{.height = 2, .width = 3, .pixels = std::vector<uint8_t>(19)},
      negative{.height = -2, .width = -3, .pixels = std::vector<uint8_t>(18)},
      huge{.height = kHuge, .width = kHuge, .pixels = std::vector<uint8_t>(18)};
  for (const Image& image : {none, few, many, negative, huge}) {
    THROWS("image", encode_png(image).size());
    THROWS("image", encode_jpeg(image).size());
    THROWS("image", center_crop(image, 1, 1));
    for (const auto resampling : {Resampling::nearest, Resampling::bilinear, Resampling::lanczos})
      THROWS("image", resize(image, 4, 4, resampling));
  }
}

TEST(MisusedImages, Sizes) {
  const Image good{.height = 2, .width = 3, .pixels = std::vector<uint8_t>(18, 200)};
  for (const int64_t size : {int64_t{0}, int64_t{-1}, kMaxImagePixels + 1, kHuge, kLowest}) {
    for (const auto resampling : {Resampling::nearest, Resampling::bicubic}) {
      THROWS("", resize(good, size, 3, resampling));
      THROWS("", resize(good, 2, size, resampling));
    }
    THROWS("", center_crop(good, size, 3));
    THROWS("", center_crop(good, 2, size));
  }
  for (const int number : {-1, 6, 255}) THROWS("", resize(good, 4, 4, static_cast<Resampling>(number)));
  for (const int quality : {0, -1, 101, INT_MAX, INT_MIN}) THROWS("JPEG", encode_jpeg(good, quality).size());
  EXPECT_EQ(resize(good, 2, 3, Resampling::lanczos), good);
  EXPECT_EQ(center_crop(good, 2, 3), good);
}

TEST(MisusedImages, Bytes) {
  const Image good{.height = 2, .width = 3, .pixels = std::vector<uint8_t>(18, 200)};
  const std::string png = encode_png(good), jpeg = encode_jpeg(good);
  for (const std::string& bytes :
       {std::string(), std::string("\x89PNG\r\n\x1A\n"), std::string("\xFF\xD8\xFF"), std::string("GIF89a"),
        std::string("RIFF"), std::string(100, '\0'), png.substr(0, png.size() / 2), jpeg.substr(0, 30)})
    THROWS("cat", decode_image(bytes, "cat"));
  THROWS("", read_image("/no/such/file"));
  THROWS("", read_image("/tmp"));
  EXPECT_EQ(decode_image(png, "png"), good);
}

}  // namespace
