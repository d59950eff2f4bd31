#pragma once

#include <array>
#include <cstring>
#include <vector>

#include "qkv/base/philox.h"
#include "qkv/tensor/block_dtypes.h"
#include "qkv/tensor/half.h"

namespace qkv::testing {

inline constexpr std::array kBlockDTypes{DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0,  DType::q5_1,
                                         DType::q4_k, DType::q5_k, DType::q6_k, DType::iq4_nl};

// Random bits, with scales of up to 1 / 16 in place of those that could be infinite.
inline std::vector<uint8_t> random_blocks(DType dtype, int64_t numbers, uint64_t seed) {
  RandomStream random(seed, 0xb10c);
  std::vector<uint8_t> bytes(bytes_of(dtype, numbers));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.uniform() * 256);
  const size_t block = layout_of(dtype).bytes, first = dtype == DType::q6_k ? block - 2 : 0;
  for (size_t at = 0; at < bytes.size(); at += block) {
    for (size_t half = first; half < first + (has_offsets(dtype) ? 4 : 2); half += 2) {
      const Float16 scale = nearest_f16(random.uniform() / 16);
      std::memcpy(bytes.data() + at + half, &scale, sizeof scale);
    }
  }
  return bytes;
}

}  // namespace qkv::testing
