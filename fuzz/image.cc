// Reads an image; if that succeeds, resizes, crops and writes it.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/data/resize.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qkv::data;
  try {
    const Image image = decode_image({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (image.height * image.width > 1 << 20) return 0;  // valid, but slow
    const Image small = resize(image, 7, 9, static_cast<Resampling>(size % 6));
    encode_png(center_crop(small, 5, 12));
  } catch (const qkv::Error&) {
    // Rejected, as expected.
  }
  return 0;
}
