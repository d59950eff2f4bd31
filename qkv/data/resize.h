#pragma once
// Image resizing with Pillow's results, bit for bit.

#include <cstdint>

#include "qkv/data/image.h"

namespace qkv::data {

// When downscaling, the filter is widened so that every source pixel contributes (except for `nearest`, which
// takes one). Rows first, then columns, with 8-bit intermediate values and 22-bit weights: this is Pillow's
// arithmetic, so results are equal bit for bit. Throws UsageError for a size below 1 or of more than
// kMaxImagePixels, and for an image without 3 bytes per pixel.
Image resize(const Image& image, int64_t height, int64_t width, Resampling resampling);

// center_crop() of that, without computing the rest: of any size that does not need padding, such as that of
// an image many times as long as it is wide. Throws UsageError for a crop below 1 or beyond the size.
Image resize_center(const Image& image, int64_t height, int64_t width, Resampling resampling,
                    int64_t crop_height, int64_t crop_width);

// The centre of an image, padded with black if it is smaller. Throws UsageError as above.
Image center_crop(const Image& image, int64_t height, int64_t width);

// The first of the `part` rows or columns that center_crop() takes of `whole`; negative if it pads. Rounded
// towards minus infinity: with an odd difference the image lies lower and further to the right.
int64_t center_crop_begin(int64_t whole, int64_t part);

}  // namespace qkv::data
