#pragma once
// Bounds on what is decoded and encoded.

#include <string>

#include "qkv/data/image.h"

namespace qkv::data {

// Throws DataError for a file with more than kMaxImagePixels pixels or none, before memory is taken for them.
void require_few_pixels(int64_t width, int64_t height, const std::string& name);

// Throws UsageError for an image that cannot be written: no pixels, too many, or not 3 bytes for each.
void require_pixels(const Image& image);

}  // namespace qkv::data
