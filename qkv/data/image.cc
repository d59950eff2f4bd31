#include "qkv/data/image.h"

#include <algorithm>
#include <array>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/data/image_limits.h"
#include "qkv/data/jpeg.h"
#include "qkv/data/png.h"

namespace qkv::data {
namespace {

constexpr std::string_view kPng = "\x89PNG\r\n\x1A\n", kJpeg = "\xFF\xD8\xFF";

// The name of an unsupported file format, by its first bytes.
const char* kind_of(std::string_view bytes) {
  constexpr std::array<std::pair<std::string_view, const char*>, 7> kKinds{{{"GIF8", "a GIF"},
                                                                            {"BM", "a BMP"},
                                                                            {"II*", "a TIFF"},
                                                                            {"MM", "a TIFF"},
                                                                            {"%PDF", "a PDF"},
                                                                            {"<svg", "an SVG"},
                                                                            {"\xFF\x0A", "a JPEG XL"}}};
  if (bytes.empty()) return "an empty file";
  if (bytes.starts_with("RIFF") && bytes.substr(std::min<size_t>(8, bytes.size())).starts_with("WEBP"))
    return "a WebP";
  if (bytes.substr(std::min<size_t>(4, bytes.size())).starts_with("ftyp"))
    return "a HEIF, an AVIF or a video";
  for (const auto& [beginning, kind] : kKinds) {
    if (bytes.starts_with(beginning)) return kind;
  }
  return "another format";
}

}  // namespace

void require_few_pixels(int64_t width, int64_t height, const std::string& name) {
  if (width > 0 && height > 0 && height <= kMaxImagePixels / width) return;
  throw DataError(concat(name, ": expected 1 to ", kMaxImagePixels, " pixels, found ", width, " x ", height));
}

void require_pixels(const Image& image) {
  const bool whole = image.height > 0 && image.width > 0 && image.height <= kMaxImagePixels / image.width &&
                     std::ssize(image.pixels) == image.height * image.width * 3;
  if (!whole) {
    throw UsageError(concat("image: expected 1 to ", kMaxImagePixels, " pixels of 3 bytes, found ",
                            image.height, " x ", image.width, " and ", image.pixels.size(), " bytes"));
  }
}

Image decode_image(std::string_view bytes, const std::string& name) {
  if (bytes.starts_with(kPng)) return decode_png(bytes, name);
  if (bytes.starts_with(kJpeg)) return decode_jpeg(bytes, name);
  throw DataError(concat(name, ": expected a PNG or JPEG file, found ", kind_of(bytes)));
}

Image to_grey(const Image& image) {
  require_pixels(image);
  constexpr uint32_t kRed = 19595, kGreen = 38470, kBlue = 7471, kHalf = 1 << 15;
  Image result = image;
  for (size_t i = 0; i < result.pixels.size(); i += 3) {
    uint8_t* const pixel = result.pixels.data() + i;
    const uint32_t sum = kRed * pixel[0] + kGreen * pixel[1] + kBlue * pixel[2] + kHalf;
    std::fill_n(pixel, 3, static_cast<uint8_t>(sum >> 16));
  }
  return result;
}

std::string read_image_file(const std::filesystem::path& path) {
  return read_limited_file(path, kMaxImageFileBytes, "an image");
}

Image read_image(const std::filesystem::path& path) {
  return decode_image(read_image_file(path), path.string());
}

}  // namespace qkv::data
