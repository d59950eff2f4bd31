#pragma once
// GPT-2's mapping of bytes to letters (Radford et al. 2019): printable Latin-1 characters map to themselves,
// the other 68 bytes, in order, to U+0100 and following; space is U+0120.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace qkv::text {

// The letter of a byte, in UTF-8.
std::string_view letter_of_byte(uint8_t byte);

// The bytes of a sequence of letters; nothing if a character is not such a letter.
std::optional<std::string> bytes_of_letters(std::string_view letters);

}  // namespace qkv::text
