#pragma once
// EXIF orientation of photos (JEITA CP-3451).

#include <string_view>

#include "qkv/data/image.h"

namespace qkv::data {

// The orientation (tag 0x0112) in the content of a JPEG's APP1 segment: 1 is upright, 2 to 8 are mirrored or
// rotated. 1 if the segment has no valid EXIF orientation. Accepts any bytes.
int exif_orientation(std::string_view app1);

// Converts an image stored with an orientation of 1 to 8 to upright.
Image upright(Image stored, int orientation);

}  // namespace qkv::data
