#include "qkv/base/reserved_memory.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <new>
#include <thread>

namespace qkv {
namespace {

TEST(ReservedMemory, IsReleasedOnceAndInnermostFirst) {
  EXPECT_FALSE(release_reserved_memory());
  {
    const ReservedMemory outer(1);
    {
      const ReservedMemory inner(100'000);
      EXPECT_TRUE(release_reserved_memory());
      EXPECT_TRUE(release_reserved_memory());
      EXPECT_FALSE(release_reserved_memory());
    }
    EXPECT_FALSE(release_reserved_memory());
    const ReservedMemory next(0);
    EXPECT_TRUE(release_reserved_memory());
  }
  EXPECT_FALSE(release_reserved_memory());
}

// The address space of this process.
int64_t mapped_bytes() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

TEST(ReservedMemory, IsKeptForTheThreadsNextOne) {
  std::thread([] {
    constexpr size_t kBytes = size_t{4} << 20;
    mapped_bytes();  // takes what reading the file takes
    const int64_t before = mapped_bytes();
    { const ReservedMemory small(kBytes); }
    EXPECT_EQ(mapped_bytes() - before, static_cast<int64_t>(kBytes));
    {
      const ReservedMemory smaller(kBytes / 2), other(1);
      EXPECT_LT(mapped_bytes() - before, static_cast<int64_t>(kBytes + kBytes / 2));
      EXPECT_TRUE(release_reserved_memory());
      EXPECT_TRUE(release_reserved_memory());
      EXPECT_FALSE(release_reserved_memory());
    }
    EXPECT_EQ(mapped_bytes(), before);
    { const ReservedMemory large(2 * kBytes); }
    EXPECT_EQ(mapped_bytes(), before);
    EXPECT_FALSE(release_reserved_memory());
  }).join();
}

TEST(ReservedMemory, IsPerThread) {
  const ReservedMemory reserved(1);
  std::thread([] {
    EXPECT_FALSE(release_reserved_memory());
    const ReservedMemory own(1);
    EXPECT_TRUE(release_reserved_memory());
  }).join();
  EXPECT_TRUE(release_reserved_memory());
}

TEST(ReservedMemory, ThrowsIfUnavailable) {
  EXPECT_THROW(ReservedMemory(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW(ReservedMemory(size_t{1} << 61), std::bad_alloc);
  EXPECT_FALSE(release_reserved_memory());
}

// Sanitizers' operator new calls no handler.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
int asked = 0;

TEST(ReservedMemory, LetsAnAllocationBeRetried) {
  const auto before = std::set_new_handler([] {
    ++asked;
    if (!release_reserved_memory()) throw std::bad_alloc();
  });
  {
    const ReservedMemory reserved(1);
    EXPECT_THROW(::operator delete(::operator new (size_t{1} << 62)), std::bad_alloc);
  }
  EXPECT_EQ(asked, 2);  // repeated after the reservation, and again in vain
  std::set_new_handler(before);
}
#endif

}  // namespace
}  // namespace qkv
