#pragma once
// Pictures: what a PNG or JPEG file shows, and the other way round.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::data {

// Red, green and blue, 0 to 255 each, as the file has them: sRGB as a rule.
struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels = {};  // [height, width, 3]

  const uint8_t* row(int64_t y) const { return pixels.data() + y * width * 3; }
  uint8_t* row(int64_t y) { return pixels.data() + y * width * 3; }
  friend bool operator==(const Image&, const Image&) = default;
};

// Larger pictures are refused before memory is taken for them.
inline constexpr int64_t kMaxImagePixels = int64_t{1} << 27;

// A PNG or JPEG file in memory; `name` is for messages. Grey becomes three equal channels, transparency is
// left out, 16 bits lose their lower 8, and CMYK is converted, all as Pillow's convert("RGB") does, but that
// grey of 16 bits keeps its shades there as here only up to 255. What a photo's EXIF says about how the
// camera was held is followed. PNGs give Pillow's pixels; JPEG decoders differ from each other by a few of
// 255 levels. Throws DataError for bytes that are no such picture, that end before the picture does, or with
// more than kMaxImagePixels.
Image decode_image(std::string_view bytes, const std::string& name);

// The same of a file; throws IoError too.
Image read_image(const std::filesystem::path& path);

// The bytes of a PNG file.
std::string encode_png(const Image& image);

// The bytes of a JPEG file; quality 1 to 100.
std::string encode_jpeg(const Image& image, int quality = 90);

}  // namespace qkv::data
