#include "qkv/tensor/block_dtypes.h"

#include <cstring>

#include "qkv/tensor/half.h"

namespace qkv {
namespace {

float half_at(const std::byte* from) {
  Float16 number;
  std::memcpy(&number, from, sizeof number);
  return widened(number);
}

uint32_t word_at(const std::byte* from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

int number_at(const std::byte* from) { return std::to_integer<int>(*from); }

// 32 numbers of four bits: the low halves of 16 bytes, then the high ones. `high`: their fifth bits.
void read_nibbles(const std::byte* from, uint32_t high, int zero, int8_t* to) {
  for (int i = 0; i < 16; ++i) {
    const int both = number_at(from + i);
    const int fifth = static_cast<int>(high >> i & 1) << 4, later = static_cast<int>(high >> (i + 16) & 1)
                                                                    << 4;
    to[i] = static_cast<int8_t>(((both & 15) | fifth) - zero);
    to[i + 16] = static_cast<int8_t>(((both >> 4) | later) - zero);
  }
}

// The steps of iq4_nl: closer to each other near zero, where most weights are.
constexpr int8_t kNonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// q4_k and q5_k: eight groups, whose scales and minima have six bits each, in 12 bytes.
void read_k_scales(const std::byte* block, NumberGroup* groups) {
  const float scale = half_at(block), minimum = half_at(block + 2);
  const std::byte* const bits = block + 4;
  for (int g = 0; g < 8; ++g) {
    const int low = number_at(bits + g % 4), middle = number_at(bits + 4 + g % 4),
              top = number_at(bits + 8 + g % 4);
    const int own_scale = g < 4 ? low & 63 : (top & 15) | (low >> 6) << 4;
    const int own_minimum = g < 4 ? middle & 63 : (top >> 4) | (middle >> 6) << 4;
    groups[g].scale = scale * static_cast<float>(own_scale);
    groups[g].offset = -(minimum * static_cast<float>(own_minimum));
  }
}

void read_q4_k(const std::byte* block, NumberGroup* groups) {
  read_k_scales(block, groups);
  for (int g = 0; g < 8; ++g) {
    const std::byte* const from = block + 16 + g / 2 * 32;  // two groups share 32 bytes
    for (int i = 0; i < 32; ++i)
      groups[g].integers[i] = static_cast<int8_t>(number_at(from + i) >> (g % 2 * 4) & 15);
  }
}

void read_q5_k(const std::byte* block, NumberGroup* groups) {
  read_k_scales(block, groups);
  for (int g = 0; g < 8; ++g) {
    const std::byte* const from = block + 48 + g / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int fifth = number_at(block + 16 + i) >> g & 1;  // of all groups' number i
      groups[g].integers[i] = static_cast<int8_t>((number_at(from + i) >> (g % 2 * 4) & 15) | fifth << 4);
    }
  }
}

// Two halves of 128 numbers: 64 bytes of low bits, 32 bytes of high ones; then 16 scales and the scale's
// scale.
void read_q6_k(const std::byte* block, NumberGroup* groups) {
  const float scale = half_at(block + 208);
  for (int g = 0; g < 16; ++g) {
    const int half = g / 8, run = g % 8 / 2, within = g % 2 * 16;  // runs of 32 numbers
    const std::byte* const low = block + half * 64 + run % 2 * 32 + within;
    const std::byte* const high = block + 128 + half * 32 + within;
    groups[g].scale = scale * static_cast<float>(std::to_integer<int8_t>(block[192 + g]));
    for (int i = 0; i < 16; ++i) {
      const int four = number_at(low + i) >> (run / 2 * 4) & 15, two = number_at(high + i) >> (run * 2) & 3;
      groups[g].integers[i] = static_cast<int8_t>((four | two << 4) - 32);
    }
  }
}

}  // namespace

void read_block(DType dtype, const std::byte* block, NumberGroup* groups) {
  NumberGroup& first = groups[0];
  switch (dtype) {
    case DType::q8_0:
      first.scale = half_at(block);
      std::memcpy(first.integers, block + 2, 32);
      break;
    case DType::q4_0:
      first.scale = half_at(block);
      read_nibbles(block + 2, 0, 8, first.integers);
      break;
    case DType::q4_1:
      first.scale = half_at(block);
      first.offset = half_at(block + 2);
      read_nibbles(block + 4, 0, 0, first.integers);
      break;
    case DType::q5_0:
      first.scale = half_at(block);
      read_nibbles(block + 6, word_at(block + 2), 16, first.integers);
      break;
    case DType::q5_1:
      first.scale = half_at(block);
      first.offset = half_at(block + 2);
      read_nibbles(block + 8, word_at(block + 4), 0, first.integers);
      break;
    case DType::iq4_nl:
      first.scale = half_at(block);
      read_nibbles(block + 2, 0, 0, first.integers);
      for (int8_t& step : first.integers) step = kNonlinear[step];
      break;
    case DType::q4_k:
      return read_q4_k(block, groups);
    case DType::q5_k:
      return read_q5_k(block, groups);
    default:
      return read_q6_k(block, groups);
  }
}

void widen_blocks(DType dtype, const void* blocks, int64_t count, float* to) {
  const DTypeLayout layout = layout_of(dtype);
  const int64_t width = group_of(dtype), groups = layout.block / width;
  const bool offsets = has_offsets(dtype);
  const auto* block = static_cast<const std::byte*>(blocks);
  NumberGroup read[16];
  for (int64_t done = 0; done < count; block += layout.bytes) {
    read_block(dtype, block, read);
    for (int64_t g = 0; g < groups; ++g, done += width) {
      const NumberGroup& group = read[g];
      for (int64_t i = 0; i < width; ++i) to[done + i] = group.scale * static_cast<float>(group.integers[i]);
      if (!offsets) continue;
      for (int64_t i = 0; i < width; ++i) to[done + i] += group.offset;
    }
  }
}

}  // namespace qkv
