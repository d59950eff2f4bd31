#include "qkv/base/reserved_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
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
