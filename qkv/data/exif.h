#pragma once
// The orientation of photos: EXIF (JEITA CP-3451), XMP (ISO 16684-1).

#include <string_view>

#include "qkv/data/image.h"

namespace qkv::data {

// The orientation: 1 is upright, 2 to 8 are mirrored or rotated. That of `exif`, a TIFF structure with tag
// 0x0112, also behind "Exif\0\0"; without such a tag, that of `xmp`, a packet with tiff:Orientation;
// otherwise 1. Accepts any bytes.
int orientation_of(std::string_view exif, std::string_view xmp = {});

// Converts an image stored with an orientation of 1 to 8 to upright.
Image upright(Image stored, int orientation);

}  // namespace qkv::data
