#pragma once
// Random order, the same on every machine (std::shuffle's is the standard library's own affair).

#include <cstdint>
#include <utility>
#include <vector>

#include "qkv/base/philox.h"

namespace qkv::data {

// Philox streams of this layer, so that uses of one seed stay independent. Epochs are added to the last.
inline constexpr uint64_t kNumberStream = 0xDA7A'0001'0000'0000ull, kEpochStream = 0xDA7A'0002'0000'0000ull;

// Fisher and Yates: every order equally likely.
template <class Item>
void shuffle(std::vector<Item>& items, RandomStream& random) {
  for (size_t left = items.size(); left > 1; --left) std::swap(items[left - 1], items[random.below(left)]);
}

}  // namespace qkv::data
