#include "qkv/tensor/block_codes.h"

#include <algorithm>
#include <cstring>

namespace qkv {
namespace {

// The low four bits of 32 numbers: the first 16 in the low halves of the bytes.
void put_nibbles(const uint8_t* codes, std::byte* to) {
  for (int i = 0; i < 16; ++i) to[i] = static_cast<std::byte>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
}

void put_fifth_bits(const uint8_t* codes, std::byte* to) {
  uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(codes[i] >> 4 & 1) << i;
  std::memcpy(to, &bits, sizeof bits);
}

// q4_k and q5_k: two groups share 32 bytes of low bits.
void put_k_codes(const uint8_t* codes, int bits, std::byte* to) {
  std::byte* const low = to + (bits == 5 ? 48 : 16);
  for (int pair = 0; pair < 4; ++pair) {
    for (int i = 0; i < 32; ++i) {
      const uint8_t* const at = codes + pair * 64 + i;
      low[pair * 32 + i] = static_cast<std::byte>((at[0] & 15) | (at[32] & 15) << 4);
    }
  }
  for (int i = 0; bits == 5 && i < 32; ++i) {
    int fifths = 0;
    for (int g = 0; g < 8; ++g) fifths |= (codes[g * 32 + i] >> 4) << g;
    to[16 + i] = static_cast<std::byte>(fifths);
  }
}

void put_q6_k_codes(const uint8_t* codes, std::byte* to) {
  std::memset(to, 0, 192);
  for (int g = 0; g < 16; ++g) {  // the layout of read_block()
    const int half = g / 8, run = g % 8 / 2, within = g % 2 * 16;
    std::byte* const low = to + half * 64 + run % 2 * 32 + within;
    std::byte* const high = to + 128 + half * 32 + within;
    for (int i = 0; i < 16; ++i) {
      const int code = codes[g * 16 + i];
      low[i] |= static_cast<std::byte>((code & 15) << (run / 2 * 4));
      high[i] |= static_cast<std::byte>((code >> 4) << (run * 2));
    }
  }
}

}  // namespace

const std::array<float, 16>& steps_of_iq4_nl() {
  static const std::array<float, 16> steps = [] {
    std::array<std::byte, 18> block{};
    for (size_t i = 0; i < 16; ++i) block[2 + i] = static_cast<std::byte>(i);
    NumberGroup group;
    read_block(DType::iq4_nl, block.data(), &group);
    std::array<float, 16> all;
    for (size_t i = 0; i < 16; ++i) all[i] = group.integers[i];
    return all;
  }();
  return steps;
}

uint8_t code_of_step(float step) {
  const auto& steps = steps_of_iq4_nl();
  return static_cast<uint8_t>(std::ranges::find(steps, step) - steps.begin());
}

IntegerRange integers_of(DType dtype) {
  switch (dtype) {
    case DType::q8_0:
      return {-128, 127};
    case DType::q4_0:
      return {-8, 7};
    case DType::q5_0:
      return {-16, 15};
    case DType::q6_k:
      return {-32, 31};
    case DType::q5_1:
    case DType::q5_k:
      return {0, 31};
    case DType::iq4_nl:
      return {-127, 113};
    default:
      return {0, 15};
  }
}

void pack_codes(DType dtype, const uint8_t* codes, std::byte* block) {
  switch (dtype) {
    case DType::q8_0:
      std::memcpy(block + 2, codes, 32);
      break;
    case DType::q5_0:
      put_fifth_bits(codes, block + 2);
      return put_nibbles(codes, block + 6);
    case DType::q5_1:
      put_fifth_bits(codes, block + 4);
      return put_nibbles(codes, block + 8);
    case DType::q4_1:
      return put_nibbles(codes, block + 4);
    case DType::q4_k:
      return put_k_codes(codes, 4, block);
    case DType::q5_k:
      return put_k_codes(codes, 5, block);
    case DType::q6_k:
      return put_q6_k_codes(codes, block);
    default:  // q4_0 and iq4_nl
      return put_nibbles(codes, block + 2);
  }
}

void put_integers(DType dtype, const NumberGroup* groups, std::byte* block) {
  const int64_t count = layout_of(dtype).block, width = group_of(dtype);
  uint8_t codes[256];
  const int lowest = dtype == DType::q8_0 ? 0 : integers_of(dtype).lowest;  // q8_0: two's complements
  for (int64_t i = 0; i < count; ++i) {
    const int8_t integer = groups[i / width].integers[i % width];
    codes[i] = dtype == DType::iq4_nl ? code_of_step(integer) : static_cast<uint8_t>(integer - lowest);
  }
  pack_codes(dtype, codes, block);
}

}  // namespace qkv
