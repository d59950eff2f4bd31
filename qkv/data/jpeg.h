#pragma once
// JPEG files, by libjpeg-turbo.

#include <string>
#include <string_view>

#include "qkv/data/image.h"

namespace qkv::data {

// As decode_image(), of bytes that begin as a JPEG does. Throws DataError.
Image decode_jpeg(std::string_view bytes, const std::string& name);

}  // namespace qkv::data
