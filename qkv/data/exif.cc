#include "qkv/data/exif.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace qkv::data {
namespace {

constexpr unsigned kOrientationTag = 0x0112, kShort = 3;

// Reads integers of either byte order; bytes beyond the end read as 0.
class Integers {
 public:
  Integers(std::string_view bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  uint32_t at(size_t place, size_t width) const {
    uint32_t number = 0;
    for (size_t i = 0; i < width; ++i) {
      const size_t k = place + (big_endian_ ? i : width - 1 - i);
      number = number << 8 | (k < bytes_.size() ? static_cast<unsigned char>(bytes_[k]) : 0u);
    }
    return number;
  }

 private:
  std::string_view bytes_;
  bool big_endian_;
};

// The orientation in the first directory of a TIFF structure; 1 if absent.
int tiff_orientation(std::string_view tiff) {
  const Integers numbers(tiff, tiff.starts_with("MM"));
  const size_t directory = numbers.at(4, 4), count = numbers.at(directory, 2);
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = directory + 2 + 12 * i;
    if (entry + 12 > tiff.size()) break;
    if (numbers.at(entry, 2) != kOrientationTag || numbers.at(entry + 2, 2) != kShort) continue;
    const uint32_t value = numbers.at(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace

int exif_orientation(std::string_view app1) {
  constexpr std::string_view kExifName{"Exif\0\0", 6};
  return app1.starts_with(kExifName) ? tiff_orientation(app1.substr(kExifName.size())) : 1;
}

Image upright(Image stored, int orientation) {
  if (orientation == 1) return stored;
  // 2: mirrored; 3: rotated by 180 degrees; 6, 8: rotated by 90 degrees; 4, 5, 7: mirrored and rotated.
  const bool swap = orientation >= 5;
  const bool flip_rows = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool flip_columns = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  Image image{.height = swap ? stored.width : stored.height,
              .width = swap ? stored.height : stored.width,
              .pixels = std::vector<uint8_t>(stored.pixels.size())};
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      const int64_t row = swap ? x : y, column = swap ? y : x;
      const uint8_t* from = stored.row(flip_rows ? stored.height - 1 - row : row) +
                            3 * (flip_columns ? stored.width - 1 - column : column);
      std::copy_n(from, 3, image.row(y) + 3 * x);
    }
  }
  return image;
}

}  // namespace qkv::data
