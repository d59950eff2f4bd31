#pragma once
// What a photo's EXIF data says about its orientation (JEITA CP-3451).

#include <string_view>

#include "qkv/data/image.h"

namespace qkv::data {

// The orientation (tag 0x0112) in the content of a JPEG's APP1 segment: 1 is upright, 2 to 8 are mirrored or
// rotated. 1 where the segment holds no EXIF, or EXIF without a valid orientation. Takes any bytes.
int exif_orientation(std::string_view app1);

// The upright image of one that is stored with an orientation of 1 to 8.
Image upright(Image stored, int orientation);

}  // namespace qkv::data
