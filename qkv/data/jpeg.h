#pragma once
// JPEG files, with libjpeg-turbo.

#include <string>
#include <string_view>

#include "qkv/data/image.h"

namespace qkv::data {

// decode_image() for bytes with a JPEG signature. Throws DataError.
Image decode_jpeg(std::string_view bytes, const std::string& name);

}  // namespace qkv::data
