#pragma once
// Images in another size, pixel for pixel as Pillow makes them.

#include <cstdint>

#include "qkv/data/image.h"

namespace qkv::data {

// The kernel that a pixel of the new image is a mean under; its number is Pillow's, and that of "resample"
// in a preprocessor_config.json.
enum class Resampling : uint8_t { nearest = 0, lanczos = 1, bilinear = 2, bicubic = 3, box = 4, hamming = 5 };

// Where the image becomes smaller the kernel becomes wider, so that every pixel counts; but for `nearest`,
// which takes one. First along the rows, then down the columns, with 8 bits in between and 22 bits in the
// weights: Pillow's arithmetic, so that the result is Pillow's to the last bit. Throws UsageError for a size
// below 1 or of more than kMaxImagePixels.
Image resize(const Image& image, int64_t height, int64_t width, Resampling resampling);

// The middle of an image, black around it where it is smaller. Throws UsageError as above.
Image center_crop(const Image& image, int64_t height, int64_t width);

}  // namespace qkv::data
