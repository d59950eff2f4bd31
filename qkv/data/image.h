#pragma once
// Decoding and encoding of PNG and JPEG files.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::data {

// Resampling filter. Values are Pillow's, as used for "resample" in preprocessor_config.json.
enum class Resampling : uint8_t { nearest = 0, lanczos = 1, bilinear = 2, bicubic = 3, box = 4, hamming = 5 };

// Red, green and blue, 0 to 255 each, as stored in the file (usually sRGB).
struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels = {};  // [height, width, 3]

  const uint8_t* row(int64_t y) const { return pixels.data() + y * width * 3; }
  uint8_t* row(int64_t y) { return pixels.data() + y * width * 3; }
  friend bool operator==(const Image&, const Image&) = default;
};

// Larger images are rejected before memory is allocated.
inline constexpr int64_t kMaxImagePixels = int64_t{1} << 27;

// Decodes a PNG or JPEG file in memory; `name` is for messages. Pixels equal those of Pillow's
// convert("RGB"), bit for bit: grey becomes three equal channels, transparency is dropped, 16-bit samples
// keep the upper 8 bits, CMYK is converted. (Exception: 16-bit grey, which Pillow clips at 255.) Photos are
// rotated by their EXIF orientation. Throws DataError for another format, a damaged or truncated file, and
// more than kMaxImagePixels.
Image decode_image(std::string_view bytes, const std::string& name);

// Larger files are refused before they are read.
inline constexpr int64_t kMaxImageFileBytes = int64_t{1} << 28;

// The bytes of an image file. Throws IoError, and DataError for a file of more bytes.
std::string read_image_file(const std::filesystem::path& path);

// Likewise for a file. Also throws IoError.
Image read_image(const std::filesystem::path& path);

// Three equal channels: (19595 red + 38470 green + 7471 blue + 32768) / 65536 rounded down, as Pillow's
// convert("L"). A grey image is unchanged.
Image to_grey(const Image& image);

// The bytes of a PNG file.
std::string encode_png(const Image& image);

// The bytes of a JPEG file; quality 1 to 100.
std::string encode_jpeg(const Image& image, int quality = 90);

}  // namespace qkv::data
