#include "qkv/io/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace qkv::io {
namespace {

constexpr uint32_t kReversedPolynomial = 0x82F63B78u;
constexpr size_t kSlices = 8;

// kTables[k][b]: the remainder of byte b followed by k zero bytes, so that eight bytes are one step of eight
// independent look-ups ("slicing by 8", Kounavis and Berry 2005).
constexpr std::array<std::array<uint32_t, 256>, kSlices> kTables = [] {
  std::array<std::array<uint32_t, 256>, kSlices> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1) ^ (remainder & 1 ? kReversedPolynomial : 0);
    }
    tables[0][byte] = remainder;
  }
  for (size_t k = 1; k < kSlices; ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t last = tables[k - 1][byte];
      tables[k][byte] = (last >> 8) ^ tables[0][last & 0xFFu];
    }
  }
  return tables;
}();

}  // namespace

uint32_t crc32c(std::string_view bytes, uint32_t before) {
  static_assert(std::endian::native == std::endian::little);
  uint32_t remainder = ~before;
  for (; bytes.size() >= kSlices; bytes.remove_prefix(kSlices)) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), kSlices);
    word ^= remainder;
    remainder = 0;
    for (size_t k = 0; k < kSlices; ++k) remainder ^= kTables[kSlices - 1 - k][(word >> (8 * k)) & 0xFFu];
  }
  for (const char byte : bytes) {
    remainder = (remainder >> 8) ^ kTables[0][(remainder ^ static_cast<uint8_t>(byte)) & 0xFFu];
  }
  return ~remainder;
}

uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u; }

}  // namespace qkv::io
