#pragma once
// PNG files, by libspng.

#include <string>
#include <string_view>

#include "qkv/data/image.h"

namespace qkv::data {

// As decode_image(), of bytes that begin as a PNG does. Throws DataError.
Image decode_png(std::string_view bytes, const std::string& name);

}  // namespace qkv::data
