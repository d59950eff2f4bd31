#pragma once
// Tokens <0x00> to <0xFF>, which spell text that a vocabulary has no other tokens for.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "qkv/text/token_models/vocabulary.h"

namespace qkv::text {

// The id of each byte's token; -1 where the vocabulary has none.
std::array<int32_t, 256> byte_tokens(const Vocabulary& vocabulary);

// The byte that a token such as <0x0A> stands for, if it is one.
std::optional<uint8_t> byte_of_token(std::string_view token);

}  // namespace qkv::text
