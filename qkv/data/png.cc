#include "qkv/data/png.h"

#include <spng.h>

#include <cstdlib>
#include <memory>

#include "qkv/base/error.h"
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
  return image;
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
