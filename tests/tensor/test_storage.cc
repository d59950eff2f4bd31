#include "qkv/tensor/storage.h"

#include <gtest/gtest.h>

#include <vector>

namespace qkv {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

// Allocates and frees a batch's worth of blocks, as training does.
void take_and_give(size_t bytes) {
  std::vector<Storage> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(allocate(bytes + static_cast<size_t>(i) * 1000));
}

TEST(Storage, AFreedBlockIsHandedOutAgain) {
  Storage block = allocate(5 * kMegabyte);
  std::byte* const memory = block.get();
  block.reset();
  const uint64_t requests = allocator_stats().system_requests;
  EXPECT_EQ(allocate(5 * kMegabyte).get(), memory);
  EXPECT_EQ(allocator_stats().system_requests, requests);
}

TEST(Storage, SmallerBatchesUseTheBlocksOfLargerOnes) {
  release_cached_memory();
  take_and_give(9 * kMegabyte);
  const AllocatorStats before = allocator_stats();
  for (const size_t tenths : {90, 85, 77, 71, 66, 89}) take_and_give(tenths * kMegabyte / 10);
  EXPECT_EQ(allocator_stats().system_requests, before.system_requests);
  EXPECT_EQ(allocator_stats().cached, before.cached);
}

TEST(Storage, ABlockIsNeverMuchLargerThanAskedFor) {
  release_cached_memory();
  take_and_give(9 * kMegabyte);
  const size_t before = allocator_stats().in_use;
  for (size_t bytes = 100; bytes < 9 * kMegabyte; bytes = bytes * 5 / 3 + 7) {
    const Storage block = allocate(bytes);
    EXPECT_GE(allocator_stats().in_use - before, bytes);
    EXPECT_LE(allocator_stats().in_use - before, std::max<size_t>(256, 2 * bytes)) << bytes;
  }
  EXPECT_EQ(allocator_stats().in_use, before);
}

TEST(Storage, CountsWhatIsInUseAndGivesTheRestBack) {
  release_cached_memory();
  reset_allocator_peak();
  const AllocatorStats before = allocator_stats();
  EXPECT_EQ(before.cached, 0u);
  Storage block = allocate(3 * kMegabyte);
  const size_t taken = allocator_stats().in_use - before.in_use;
  EXPECT_GE(taken, 3 * kMegabyte);
  block.reset();
  EXPECT_EQ(allocator_stats().in_use, before.in_use);
  EXPECT_EQ(allocator_stats().peak_in_use, before.in_use + taken);
  EXPECT_EQ(allocator_stats().cached, taken);
  release_cached_memory();
  EXPECT_EQ(allocator_stats().cached, 0u);
}

}  // namespace
}  // namespace qkv
