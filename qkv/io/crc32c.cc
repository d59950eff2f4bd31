#include "qkv/io/crc32c.h"

#include <array>
#include <bit>

namespace qkv::io {
namespace {

constexpr uint32_t kReversedPolynomial = 0x82F63B78u;

constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1) ^ (remainder & 1 ? kReversedPolynomial : 0);
    }
    table[byte] = remainder;
  }
  return table;
}();

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t remainder = ~0u;
  for (const char byte : bytes) {
    remainder = (remainder >> 8) ^ kTable[(remainder ^ static_cast<uint8_t>(byte)) & 0xFFu];
  }
  return ~remainder;
}

uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u; }

}  // namespace qkv::io
