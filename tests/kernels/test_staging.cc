#include "qkv/kernels/cuda/staging.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace qkv::kernels::cuda {
namespace {

// Copies of many sizes over several laps: none overlaps another that may not have ended.
TEST(StagingRing, FillsASliceAgainOnlyWhenItsCopiesHaveEnded) {
  constexpr size_t kBytes = StagingRing::kSlices * StagingRing::kSliceBytes;
  std::vector<std::byte> memory(kBytes);
  struct Copy {
    size_t begin, end;
    bool marked;
  };
  std::vector<Copy> running;
  size_t waits = 0;
  StagingRing ring(
      memory.data(),
      [&](size_t slice) {
        for (Copy& copy : running)
          copy.marked = copy.marked || copy.begin / StagingRing::kSliceBytes == slice;
      },
      [&](size_t slice) {
        ++waits;
        std::erase_if(running, [&](const Copy& copy) {
          return copy.marked && copy.begin / StagingRing::kSliceBytes == slice;
        });
      });
  size_t total = 0;
  for (uint64_t n = 0; total < 3 * kBytes; ++n) {
    const size_t bytes = n % 9 == 0 ? StagingRing::kSliceBytes : 1 + n * 7919 % 300'000;
    const auto begin = static_cast<size_t>(ring.take(bytes) - memory.data());
    ASSERT_EQ(begin % 16, 0u);
    ASSERT_LE(begin + bytes, kBytes);
    ASSERT_EQ(begin / StagingRing::kSliceBytes, (begin + bytes - 1) / StagingRing::kSliceBytes);
    for (const Copy& copy : running) ASSERT_TRUE(begin + bytes <= copy.begin || begin >= copy.end) << n;
    running.push_back({begin, begin + bytes, false});
    total += bytes;
  }
  EXPECT_GE(waits, 2 * StagingRing::kSlices);
}

}  // namespace
}  // namespace qkv::kernels::cuda
