#include "qkv/base/per_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace qkv {
namespace {

struct Counted {
  Counted() { ++made; }
  ~Counted() { ++destroyed; }
  int value = 7;
  static inline std::atomic<int> made = 0, destroyed = 0;
};

struct Other {
  std::vector<int> values;
};

TEST(PerThread, IsPerThreadUntilTheThreadEnds) {
  per_thread<Counted>().value = 1;
  EXPECT_EQ(&per_thread<Counted>(), &per_thread<Counted>());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      EXPECT_EQ(per_thread<Counted>().value, 7);
      per_thread<Counted>().value = i;
      per_thread<Other>().values.assign(100, i);
      EXPECT_EQ(per_thread<Counted>().value, i);
      EXPECT_EQ(per_thread<Other>().values.back(), i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Counted::made, 5);
  EXPECT_EQ(Counted::destroyed, 4);
  EXPECT_EQ(per_thread<Counted>().value, 1);
}

}  // namespace
}  // namespace qkv
