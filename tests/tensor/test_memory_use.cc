#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "qkv/tensor/tensor.h"

namespace {

using namespace qkv;

constexpr size_t kMega = size_t{1} << 20;

size_t in_use_for(MemoryUse use) { return allocator_stats().in_use_for[static_cast<size_t>(use)]; }

Tensor megabytes(int64_t count) {
  return Tensor::empty({count, static_cast<int64_t>(kMega / sizeof(float))});
}

TEST(MemoryUse, IsThatOfTheAllocatingScope) {
  release_cached_memory();
  const size_t weights = in_use_for(MemoryUse::weights), others = in_use_for(MemoryUse::activations);
  Tensor weight, activation;
  {
    const MemoryScope scope(MemoryUse::weights);
    weight = megabytes(3);
    std::thread([&] { activation = megabytes(1); }).join();  // a scope applies to its own thread
    {
      const MemoryScope inner(MemoryUse::packed);
      const Tensor packed = megabytes(5);
      EXPECT_EQ(in_use_for(MemoryUse::packed), 5 * kMega);
    }
    EXPECT_EQ(in_use_for(MemoryUse::packed), 0) << "given back where it was taken from";
    EXPECT_EQ(in_use_for(MemoryUse::weights), weights + 3 * kMega);
    weight = megabytes(2);
  }
  EXPECT_EQ(in_use_for(MemoryUse::weights), weights + 2 * kMega);
  EXPECT_EQ(in_use_for(MemoryUse::activations), others + kMega);
  // Freed outside the scope, but accounted to it.
  weight = {};
  activation = {};
  EXPECT_EQ(in_use_for(MemoryUse::weights), weights);
  EXPECT_EQ(in_use_for(MemoryUse::activations), others);
}

TEST(MemoryUse, PeakIsSplitByUse) {
  release_cached_memory();  // cached blocks may be larger than requested
  reset_allocator_peak();
  const size_t before = allocator_stats().peak_in_use;
  {
    const Tensor activation = megabytes(7);
    const MemoryScope scope(MemoryUse::optimizer);
    const Tensor moments = megabytes(2);
  }
  const Tensor smaller = megabytes(8);
  const AllocatorStats stats = allocator_stats();
  EXPECT_EQ(stats.peak_in_use, before + 9 * kMega);
  EXPECT_EQ(stats.at_peak[static_cast<size_t>(MemoryUse::optimizer)], 2 * kMega);
  size_t sum = 0;
  for (const size_t bytes : stats.at_peak) sum += bytes;
  EXPECT_EQ(sum, stats.peak_in_use);
  reset_allocator_peak();
  EXPECT_EQ(allocator_stats().peak_in_use, before + 8 * kMega);
}

TEST(MemoryUse, HasNames) {
  for (size_t i = 0; i < kMemoryUses; ++i) {
    const std::string name = name_of(static_cast<MemoryUse>(i));
    EXPECT_FALSE(name.empty());
    for (size_t j = 0; j < i; ++j) EXPECT_NE(name, name_of(static_cast<MemoryUse>(j)));
  }
}

}  // namespace
