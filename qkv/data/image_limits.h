#pragma once
// Size limits of decoding and encoding.

#include <string>

#include "qkv/data/image.h"

namespace qkv::data {

// Throws DataError for a file with no pixels or more than kMaxImagePixels, before memory is allocated.
void require_few_pixels(int64_t width, int64_t height, const std::string& name);

// Throws UsageError for an image that cannot be read: no pixels, too many, or not 3 bytes per pixel.
void require_pixels(const Image& image);

}  // namespace qkv::data
