#pragma once
// Shuffling, identical on every machine (std::shuffle is implementation-defined).

#include <cstdint>
#include <utility>
#include <vector>

#include "qkv/base/philox.h"

namespace qkv::data {

// This layer's Philox streams, which keep different uses of one seed independent. The epoch is added to the
// last.
inline constexpr uint64_t kNumberStream = 0xDA7A'0001'0000'0000ull, kEpochStream = 0xDA7A'0002'0000'0000ull,
                          kHoldOutStream = 0xDA7A'0005'0000'0000ull;

// Fisher-Yates shuffle: all permutations are equally likely.
template <class Item>
void shuffle(std::vector<Item>& items, RandomStream& random) {
  for (size_t left = items.size(); left > 1; --left) std::swap(items[left - 1], items[random.below(left)]);
}

}  // namespace qkv::data
