#pragma once
// Byte-fallback tokens <0x00> to <0xFF>, for text that other tokens cannot represent.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "qkv/text/token_models/vocabulary.h"

namespace qkv::text {

// The id of each byte's token; -1 if not in the vocabulary.
std::array<int32_t, 256> byte_tokens(const Vocabulary& vocabulary);

// The byte of a token such as <0x0A>; nothing for other tokens.
std::optional<uint8_t> byte_of_token(std::string_view token);

}  // namespace qkv::text
