#include "qkv/data/exif.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace qkv::data {
namespace {

constexpr unsigned kOrientationTag = 0x0112, kShort = 3, kLong = 4;
constexpr std::string_view kExifName{"Exif\0\0", 6};

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

// The orientation in the first directory of a TIFF structure.
std::optional<uint32_t> tiff_orientation(std::string_view tiff) {
  const bool big_endian = tiff.starts_with("MM");
  if (!big_endian && !tiff.starts_with("II")) return std::nullopt;
  const Integers numbers(tiff, big_endian);
  const size_t directory = numbers.at(4, 4), count = numbers.at(directory, 2);
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = directory + 2 + 12 * i;
    if (entry + 12 > tiff.size()) break;
    const uint32_t type = numbers.at(entry + 2, 2);
    if (numbers.at(entry, 2) != kOrientationTag || (type != kShort && type != kLong)) continue;
    return numbers.at(entry + 8, type == kShort ? 2 : 4);
  }
  return std::nullopt;
}

// tiff:Orientation="6", or <tiff:Orientation>6
std::optional<uint32_t> xmp_orientation(std::string_view xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = xmp.find(kName); at != xmp.npos; at = xmp.find(kName, at + 1)) {
    std::string_view rest = xmp.substr(at + kName.size());
    const size_t prefix = rest.starts_with("=\"") ? 2 : rest.starts_with(">") ? 1 : 0;
    if (prefix == 0 || rest.size() <= prefix || rest[prefix] < '0' || rest[prefix] > '9') continue;
    return static_cast<uint32_t>(rest[prefix] - '0');
  }
  return std::nullopt;
}

}  // namespace

int orientation_of(std::string_view exif, std::string_view xmp) {
  for (int i = 0; i < 2 && exif.starts_with(kExifName); ++i) exif.remove_prefix(kExifName.size());
  std::optional<uint32_t> found = tiff_orientation(exif);
  if (!found) found = xmp_orientation(xmp);
  return found && *found >= 1 && *found <= 8 ? static_cast<int>(*found) : 1;
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
