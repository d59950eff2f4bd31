#pragma once
// IDX files and class folders for tests.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/data/image.h"
#include "tests/support/scratch.h"

namespace qkv::testing {

inline std::string big_endian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

// The bytes of an IDX file of images; the counts are written as given, whatever the pixels are.
inline std::string idx_images(uint32_t images, uint32_t height, uint32_t width, const std::string& pixels) {
  return big_endian(0x0803) + big_endian(images) + big_endian(height) + big_endian(width) + pixels;
}

inline std::string idx_labels(uint32_t count, const std::string& labels) {
  return big_endian(0x0801) + big_endian(count) + labels;
}

// Grey images of `side` pixels with a bright horizontal (class 0) or vertical (class 1) bar at a place that
// depends on the image, and a little noise: the pixels, and the labels.
struct Bars {
  std::string pixels, labels;
};

inline Bars bars(int count, int side) {
  Bars result;
  for (int i = 0; i < count; ++i) {
    const int place = (i / 2 * 5 + i) % side;
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        const bool bright = (i % 2 == 0 ? y : x) == place;
        result.pixels += static_cast<char>((bright ? 200 : 30) + (i * 7 + y * 3 + x * 11) % 17);
      }
    }
    result.labels += static_cast<char>(i % 2);
  }
  return result;
}

// Writes bars as the IDX files NAME-images and NAME-labels.
inline void write_bars(const Scratch& scratch, const std::string& name, int count, int side) {
  const Bars some = bars(count, side);
  const auto number = static_cast<uint32_t>(count), pixels = static_cast<uint32_t>(side);
  scratch.write(name + "-images", idx_images(number, pixels, pixels, some.pixels));
  scratch.write(name + "-labels", idx_labels(number, some.labels));
}

// An image of one colour.
inline data::Image plain(int64_t height, int64_t width, uint8_t red, uint8_t green, uint8_t blue) {
  data::Image image{.height = height, .width = width};
  for (int64_t i = 0; i < height * width; ++i) image.pixels.insert(image.pixels.end(), {red, green, blue});
  return image;
}

}  // namespace qkv::testing
