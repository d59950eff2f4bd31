#pragma once
// PNG files, with libspng.

#include <string>
#include <string_view>

#include "qkv/data/image.h"

namespace qkv::data {

// decode_image() for bytes with a PNG signature. Throws DataError.
Image decode_png(std::string_view bytes, const std::string& name);

}  // namespace qkv::data
