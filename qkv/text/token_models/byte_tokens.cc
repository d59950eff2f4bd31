#include "qkv/text/token_models/byte_tokens.h"

#include <charconv>
#include <string>

namespace qkv::text {

std::array<int32_t, 256> byte_tokens(const Vocabulary& vocabulary) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::array<int32_t, 256> ids{};
  for (size_t byte = 0; byte < ids.size(); ++byte) {
    ids[byte] = vocabulary.find(std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + '>');
  }
  return ids;
}

std::optional<uint8_t> byte_of_token(std::string_view token) {
  constexpr size_t kLength = 6;
  if (token.size() != kLength || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const char* const end = token.data() + 5;
  const auto read = std::from_chars(token.data() + 3, end, byte, 16);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return byte;
}

}  // namespace qkv::text
