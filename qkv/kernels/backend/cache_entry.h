#pragma once

#include <cstddef>
#include <cstdint>

#include "qkv/kernels/backend/device_access.h"
#include "qkv/kernels/cache_block_table.h"

namespace qkv::kernels {

// The memory of a row's position i; `bytes`: of a position.
inline std::byte* cache_entry(const CacheRow& row, size_t i, size_t bytes) {
  constexpr auto kPositions = static_cast<uint32_t>(CacheBlockTable::kPositions);
  const auto number = static_cast<uint32_t>(row.numbers[i]);
  return static_cast<std::byte*>(DeviceAccess::pointer(row.blocks[number / kPositions])) +
         number % kPositions * bytes;
}

}  // namespace qkv::kernels
