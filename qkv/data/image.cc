#include "qkv/data/image.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/data/jpeg_markers.h"

namespace {

// How much stb_image may take at a time while it decodes: what is compressed in a file may say that it is
// any size.
thread_local size_t most_bytes = 0;

// Zeros: it reads tables and pixels that a damaged file has left out, and results are to be the same bits.
void* limited_malloc(size_t bytes) { return bytes > most_bytes ? nullptr : std::calloc(bytes, 1); }
void* limited_realloc(void* memory, size_t bytes) {
  return bytes > most_bytes ? nullptr : std::realloc(memory, bytes);
}

// A PNG's first chunk of pixels may be empty: nothing is copied then, to where no memory is yet.
void* copy_bytes(void* to, const void* from, size_t bytes) {
  return bytes > 0 ? std::memcpy(to, from, bytes) : to;
}

}  // namespace

// Compiled in, so that nothing has to be linked, and for the two formats alone: its other readers are where
// its known defects lie.
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_ASSERT(condition) static_cast<void>(condition)
#define STBI_MALLOC(bytes) limited_malloc(bytes)
#define STBI_REALLOC(memory, bytes) limited_realloc(memory, bytes)
#define STBI_FREE(memory) std::free(memory)
#define memcpy copy_bytes
#include <stb/stb_image.h>
#undef memcpy
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>

namespace qkv::data {
namespace {

constexpr std::string_view kPng = "\x89PNG\r\n\x1A\n", kJpeg = "\xFF\xD8\xFF";

// What the bytes of another kind of file call themselves.
const char* kind_of(std::string_view bytes) {
  constexpr std::array<std::pair<std::string_view, const char*>, 7> kKinds{{{"GIF8", "a GIF"},
                                                                            {"BM", "a BMP"},
                                                                            {"II*", "a TIFF"},
                                                                            {"MM", "a TIFF"},
                                                                            {"%PDF", "a PDF"},
                                                                            {"<svg", "an SVG"},
                                                                            {"\xFF\x0A", "a JPEG XL"}}};
  if (bytes.empty()) return "an empty file";
  if (bytes.starts_with("RIFF") && bytes.substr(8).starts_with("WEBP")) return "a WebP";
  if (bytes.substr(std::min<size_t>(4, bytes.size())).starts_with("ftyp")) return "a HEIF, an AVIF or a film";
  for (const auto& [beginning, kind] : kKinds) {
    if (bytes.starts_with(beginning)) return kind;
  }
  return "something else";
}

// A PNG's width and height are its bytes 16 to 23. stb_image would not say that they are too large.
constexpr size_t kPngSize = 16;

int64_t big_endian(std::string_view bytes, size_t place) {
  int64_t number = 0;
  for (size_t i = 0; i < 4; ++i) {
    number = number << 8 | (place + i < bytes.size() ? static_cast<unsigned char>(bytes[place + i]) : 0);
  }
  return number;
}

void require_few_pixels(int64_t width, int64_t height, const std::string& name) {
  if (width > 0 && height > kMaxImagePixels / width) {
    throw DataError(
        concat(name, ": expected at most ", kMaxImagePixels, " pixels, found ", width, " x ", height));
  }
}

// Turned as EXIF's number says (2 mirrored, 3 upside down, 6 and 8 on its sides, ...).
Image turned(const Image& stored, int orientation) {
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

// Appends to the std::string that `context` points at.
void append(void* context, void* data, int size) {
  static_cast<std::string*>(context)->append(static_cast<const char*>(data), static_cast<size_t>(size));
}

void require_pixels(const Image& image) {
  const bool whole = image.height > 0 && image.width > 0 && image.height <= kMaxImagePixels / image.width &&
                     std::ssize(image.pixels) == image.height * image.width * 3;
  if (!whole) {
    throw UsageError(concat("image: expected 1 to ", kMaxImagePixels, " pixels of 3 bytes, found ",
                            image.height, " x ", image.width, " and ", image.pixels.size(), " bytes"));
  }
}

// The bytes that `write` appended.
template <class Write>
std::string written(const Image& image, const Write& write) {
  require_pixels(image);
  std::string file;
  const int width = static_cast<int>(image.width), height = static_cast<int>(image.height);
  if (write(&file, width, height) == 0) {
    throw Error(concat("image: no memory to write ", width, " x ", height, " pixels"));
  }
  return file;
}

}  // namespace

Image decode_image(std::string_view bytes, const std::string& name) {
  const bool png = bytes.starts_with(kPng);
  if (!png && !bytes.starts_with(kJpeg)) {
    throw DataError(concat(name, ": expected a PNG or JPEG file, found ", kind_of(bytes)));
  }
  const char* format = png ? "PNG" : "JPEG";
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const int size = static_cast<int>(std::min<size_t>(bytes.size(), INT32_MAX));
  const auto refuse = [&](const std::string& found) {
    throw DataError(concat(name, ": expected a whole ", format, " file, found ", found));
  };
  const JpegMarkers markers = png ? JpegMarkers{.complete = true} : read_jpeg_markers(bytes);
  if (bytes.size() > INT32_MAX) refuse(concat(bytes.size(), " bytes"));
  // Before stb_image sees any of it.
  if (!markers.complete) refuse("one that ends before its picture does");
  if (!markers.tables_fit) refuse("one whose Huffman tables are too long");
  int width = 0, height = 0, channels = 0;
  most_bytes = size_t{1} << 20;
  if (png) {
    require_few_pixels(big_endian(bytes, kPngSize), big_endian(bytes, kPngSize + 4), name);
  }
  if (stbi_info_from_memory(data, size, &width, &height, &channels) == 0) refuse(stbi_failure_reason());
  require_few_pixels(width, height, name);
  // Generous for both formats: 4 channels of 16 bits and a margin on each side, twice as the space grows.
  most_bytes = (size_t{1} << 20) + 2 * bytes.size() +
               32 * (static_cast<size_t>(width) + 64) * (static_cast<size_t>(height) + 64);
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(data, size, &width, &height, &channels, 3), stbi_image_free);
  if (pixels == nullptr) refuse(stbi_failure_reason());
  const Image image{.height = height,
                    .width = width,
                    .pixels = {pixels.get(), pixels.get() + static_cast<std::ptrdiff_t>(width) * height * 3}};
  return markers.orientation == 1 ? image : turned(image, markers.orientation);
}

Image read_image(const std::filesystem::path& path) { return decode_image(read_file(path), path.string()); }

std::string encode_png(const Image& image) {
  return written(image, [&](std::string* file, int width, int height) {
    return stbi_write_png_to_func(append, file, width, height, 3, image.pixels.data(), 3 * width);
  });
}

std::string encode_jpeg(const Image& image, int quality) {
  if (quality < 1 || quality > 100) {
    throw UsageError(concat("JPEG: expected a quality of 1 to 100, found ", quality));
  }
  return written(image, [&](std::string* file, int width, int height) {
    return stbi_write_jpg_to_func(append, file, width, height, 3, image.pixels.data(), quality);
  });
}

}  // namespace qkv::data
