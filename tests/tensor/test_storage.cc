#include "qkv/tensor/storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace qkv {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

// Allocates and frees a batch's worth of blocks, as training does.
void take_and_give(size_t bytes) {
  std::vector<Storage> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(allocate(bytes + static_cast<size_t>(i) * 1000));
}

TEST(Storage, ReusesAFreedBlock) {
  Storage block = allocate(5 * kMegabyte);
  std::byte* const memory = block.get();
  block.reset();
  const uint64_t requests = allocator_stats().system_requests;
  EXPECT_EQ(allocate(5 * kMegabyte).get(), memory);
  EXPECT_EQ(allocator_stats().system_requests, requests);
}

TEST(Storage, SmallerBatchesReuseLargerBlocks) {
  release_cached_memory();
  take_and_give(9 * kMegabyte);
  const AllocatorStats before = allocator_stats();
  for (const size_t tenths : {90, 85, 77, 71, 66, 89}) take_and_give(tenths * kMegabyte / 10);
  EXPECT_EQ(allocator_stats().system_requests, before.system_requests);
  EXPECT_EQ(allocator_stats().cached, before.cached);
}

TEST(Storage, BlocksAreNotMuchLargerThanRequested) {
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

TEST(Storage, CountsMemoryInUseAndReleasesTheRest) {
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

TEST(Storage, InferenceKeepsNoMoreThanIsInUse) {
  constexpr size_t kBlock = size_t{1} << 20;
  const auto free_blocks = [] {
    std::vector<Storage> blocks(8);
    for (Storage& block : blocks) block = allocate(kBlock);
  };
  release_cached_memory();
  free_blocks();
  const size_t cached = allocator_stats().cached;
  ASSERT_GE(cached, 8 * kBlock);
  const Storage plain = allocate(2 * kBlock);
  EXPECT_EQ(allocator_stats().cached, cached) << "training keeps blocks";
  {
    const InferenceMemory inference;
    const Storage fits = allocate(kBlock);
    EXPECT_EQ(allocator_stats().cached, cached - kBlock) << "a block that fits is reused";
    const Storage other = allocate(3 * kBlock);
    EXPECT_EQ(allocator_stats().cached, 0u);
    free_blocks();
    std::vector<Storage> more(12);
    for (Storage& block : more) block = allocate(kBlock);
    free_blocks();
    const size_t few = allocator_stats().cached;
    ASSERT_LT(few, allocator_stats().in_use);
    const Storage last = allocate(5 * kBlock);
    EXPECT_EQ(allocator_stats().cached, few) << "fewer than are in use stay";
  }
  free_blocks();
  const size_t again = allocator_stats().cached;
  const Storage later = allocate(6 * kBlock);
  EXPECT_EQ(allocator_stats().cached, again);
}

TEST(Storage, GradientsShareAFreeBlock) {
  release_cached_memory();
  std::byte* const memory = allocate(24 * kMegabyte).get();
  const AllocatorStats before = allocator_stats();
  const MemoryScope scope(MemoryUse::gradients);
  const auto of_gradients = [] {
    return allocator_stats().in_use_for[static_cast<size_t>(MemoryUse::gradients)];
  };
  ASSERT_EQ(of_gradients(), 0u);
  std::vector<Storage> gradients{allocate(9 * kMegabyte), allocate(9 * kMegabyte + 1), allocate(100)};
  EXPECT_EQ(gradients[0].get(), memory);
  for (size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_EQ((gradients[i].get() - memory) % 64, 0) << i;
    EXPECT_GE(gradients[i].get() - memory, static_cast<std::ptrdiff_t>(i * 9 * kMegabyte)) << i;
    EXPECT_LT(gradients[i].get() - memory, static_cast<std::ptrdiff_t>(24 * kMegabyte)) << i;
  }
  EXPECT_GE(gradients[2].get(), gradients[1].get() + 9 * kMegabyte + 1);
  EXPECT_EQ(of_gradients(), 24 * kMegabyte);
  EXPECT_EQ(allocator_stats().system_requests, before.system_requests);

  // Without a free block that is large enough, one of its own.
  const Storage large = allocate(7 * kMegabyte);
  EXPECT_EQ(allocator_stats().system_requests, before.system_requests + 1);
  EXPECT_EQ(of_gradients(), 31 * kMegabyte);

  // The block is free again after its last gradient.
  gradients.erase(gradients.begin(), gradients.begin() + 2);
  EXPECT_EQ(of_gradients(), 31 * kMegabyte);
  gradients.clear();
  EXPECT_EQ(of_gradients(), 7 * kMegabyte);
  EXPECT_EQ(allocator_stats().cached, before.cached);
  EXPECT_EQ(allocate(24 * kMegabyte).get(), memory);
}

TEST(Storage, GradientsDoNotUseVeryLargeBlocks) {
  release_cached_memory();
  allocate(65 * kMegabyte).reset();
  const size_t cached = allocator_stats().cached;
  const MemoryScope scope(MemoryUse::gradients);
  const Storage gradient = allocate(kMegabyte);
  EXPECT_EQ(allocator_stats().cached, cached);
}

TEST(Storage, GradientsOfThreadsDoNotOverlap) {
  release_cached_memory();
  allocate(32 * kMegabyte).reset();
  constexpr size_t kThreads = 4, kRounds = 200, kBytes = 30'000;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&wrong, t] {
      const MemoryScope scope(MemoryUse::gradients);
      const auto mark = static_cast<std::byte>(t + 1);
      for (size_t round = 0; round < kRounds; ++round) {
        const Storage one = allocate(kBytes), other = allocate(kBytes / 3);
        std::fill_n(one.get(), kBytes, mark);
        std::fill_n(other.get(), kBytes / 3, mark);
        wrong += static_cast<int>(
            std::count_if(one.get(), one.get() + kBytes, [&](std::byte byte) { return byte != mark; }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace qkv
