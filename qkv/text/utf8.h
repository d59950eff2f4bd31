#pragma once
// UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::text {

// The position of the first byte that does not begin or continue a valid character; nothing if all is valid.
// For a character that is cut or malformed it is the position of the character's first byte.
std::optional<size_t> first_bad_utf8(std::string_view text);

inline bool valid_utf8(std::string_view text) { return !first_bad_utf8(text); }

// Text in which each maximal invalid part of a sequence is one U+FFFD, as Python's decode("utf-8", "replace")
// and the Unicode Standard (3.9, "U+FFFD Substitution of Maximal Subparts") have it.
struct RepairedText {
  std::string text;
  std::vector<uint32_t> sources;  // of each byte of `text`, and its end: the position in what was given
};
RepairedText repair_utf8(std::string_view bytes);

}  // namespace qkv::text
