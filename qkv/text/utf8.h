#pragma once
// UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF.

#include <cstddef>
#include <optional>
#include <string_view>

namespace qkv::text {

// The position of the first byte that does not begin or continue a valid character; nothing if all is valid.
// For a character that is cut or malformed it is the position of the character's first byte.
std::optional<size_t> first_bad_utf8(std::string_view text);

inline bool valid_utf8(std::string_view text) { return !first_bad_utf8(text); }

}  // namespace qkv::text
