#pragma once
// GPT-2's spelling of bytes as letters (Radford et al. 2019): printable Latin-1 characters stand for
// themselves, the other 68 bytes, in order, are U+0100 and what follows; the space is U+0120.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace qkv::text {

// The letter of a byte, as UTF-8.
std::string_view letter_of_byte(uint8_t byte);

// The bytes that letters stand for; nothing if one of the characters is not such a letter.
std::optional<std::string> bytes_of_letters(std::string_view letters);

}  // namespace qkv::text
