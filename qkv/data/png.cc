#include "qkv/data/png.h"

#include <spng.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/data/exif.h"
#include "qkv/data/image_limits.h"

namespace qkv::data {
namespace {

using Context = std::unique_ptr<spng_ctx, void (*)(spng_ctx*)>;

Context context(int flags) {
  Context made(spng_ctx_new(flags), spng_ctx_free);
  if (!made) throw std::bad_alloc();
  return made;
}

// Width and height are bytes 16 to 23, big-endian. Read here, because libspng's error for absurd sizes does
// not name them.
constexpr size_t kWidthOffset = 16;

int64_t big_endian(std::string_view bytes, size_t offset) {
  int64_t number = 0;
  for (size_t i = 0; i < 4; ++i) {
    number = number << 8 | (offset + i < bytes.size() ? static_cast<unsigned char>(bytes[offset + i]) : 0);
  }
  return number;
}

// The hexadecimal content of a text chunk of ImageMagick: a line break, "exif", a length, and the bytes in
// lines.
std::string raw_profile(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const size_t end = text.find('\n');
    if (end == text.npos) return {};
    text.remove_prefix(end + 1);
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string bytes;
  int high = -1;
  for (const char c : text) {
    const size_t digit = kDigits.find(static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c));
    if (digit == kDigits.npos) continue;
    if (high < 0) {
      high = static_cast<int>(digit);
    } else {
      bytes += static_cast<char>(high << 4 | static_cast<int>(digit));
      high = -1;
    }
  }
  return bytes;
}

// After all chunks were read.
int orientation_in(spng_ctx* png) {
  std::string exif, xmp;
  uint32_t count = 0;
  if (spng_get_text(png, nullptr, &count) == 0) {
    std::vector<spng_text> texts(count);
    if (spng_get_text(png, texts.data(), &count) == 0) {
      for (const spng_text& one : texts) {
        const std::string_view keyword = one.keyword, text(one.text, one.length);
        if (keyword == "XML:com.adobe.xmp") xmp = text;
        if (keyword == "Raw profile type exif") exif = raw_profile(text);
      }
    }
  }
  spng_exif chunk{};
  if (spng_get_exif(png, &chunk) == 0) exif.assign(chunk.data, chunk.length);
  return orientation_of(exif, xmp);
}

}  // namespace

Image decode_png(std::string_view bytes, const std::string& name) {
  const auto require = [&](int status) {
    if (status == SPNG_EMEM) throw std::bad_alloc();
    if (status != 0) {
      throw DataError(
          concat(name, ": expected a complete PNG file, found an error: ", spng_strerror(status)));
    }
  };
  const Context png = context(0);
  // Limits text and profile chunks, which are not used and may unpack to any size.
  require(spng_set_chunk_limits(png.get(), size_t{1} << 20, size_t{1} << 22));
  require(spng_set_crc_action(png.get(), SPNG_CRC_ERROR, SPNG_CRC_DISCARD));
  require(spng_set_png_buffer(png.get(), bytes.data(), bytes.size()));
  if (bytes.size() >= kWidthOffset + 8) {
    require_few_pixels(big_endian(bytes, kWidthOffset), big_endian(bytes, kWidthOffset + 4), name);
  }
  spng_ihdr header{};
  require(spng_get_ihdr(png.get(), &header));
  Image image{.height = header.height, .width = header.width};
  size_t size = 0;
  require(spng_decoded_image_size(png.get(), SPNG_FMT_RGB8, &size));
  image.pixels.resize(size);
  require(spng_decode_image(png.get(), image.pixels.data(), size, SPNG_FMT_RGB8, 0));
  require(spng_decode_chunks(png.get()));  // reads to the end of the file, so that truncation is detected
  return upright(std::move(image), orientation_in(png.get()));
}

std::string encode_png(const Image& image) {
  require_pixels(image);
  const Context png = context(SPNG_CTX_ENCODER);
  const auto require = [](int status) {
    if (status != 0) throw Error(concat("cannot encode PNG: ", spng_strerror(status)));
  };
  require(spng_set_option(png.get(), SPNG_ENCODE_TO_BUFFER, 1));
  spng_ihdr header{};
  header.width = static_cast<uint32_t>(image.width);
  header.height = static_cast<uint32_t>(image.height);
  header.bit_depth = 8;
  header.color_type = SPNG_COLOR_TYPE_TRUECOLOR;
  require(spng_set_ihdr(png.get(), &header));
  require(spng_encode_image(png.get(), image.pixels.data(), image.pixels.size(), SPNG_FMT_PNG,
                            SPNG_ENCODE_FINALIZE));
  size_t size = 0;
  int status = 0;
  const std::unique_ptr<void, void (*)(void*)> file(spng_get_png_buffer(png.get(), &size, &status),
                                                    std::free);
  require(status);
  return {static_cast<const char*>(file.get()), size};
}

}  // namespace qkv::data
