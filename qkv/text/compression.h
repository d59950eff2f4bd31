#pragma once

#include <string_view>

namespace qkv::text {

// The bytes of a text divided by those after zlib's compression: high for texts that repeat themselves. 0 for
// an empty text.
double compression_ratio(std::string_view text);

}  // namespace qkv::text
