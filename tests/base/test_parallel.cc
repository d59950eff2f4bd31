#include "qkv/base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "qkv/base/error.h"

namespace {

class ParallelFor : public ::testing::Test {
 protected:
  void TearDown() override { qkv::set_threads(before_); }

 private:
  int before_ = qkv::threads();
};

TEST_F(ParallelFor, CoversEverythingOnceInPiecesThatDoNotDependOnThreads) {
  for (const int64_t count : {1, 7, 64, 1000}) {
    for (const int64_t grain : {1, 3, 64, 5000}) {
      std::set<std::pair<int64_t, int64_t>> expected;
      for (int64_t begin = 0; begin < count; begin += grain)
        expected.insert({begin, std::min(begin + grain, count)});
      for (const int threads : {1, 2, 5}) {
        qkv::set_threads(threads);
        std::mutex mutex;
        std::vector<std::pair<int64_t, int64_t>> pieces;
        qkv::parallel_for(count, grain, [&](int64_t begin, int64_t end) {
          const std::lock_guard lock(mutex);
          pieces.emplace_back(begin, end);
        });
        EXPECT_EQ(pieces.size(), expected.size());
        EXPECT_EQ((std::set<std::pair<int64_t, int64_t>>(pieces.begin(), pieces.end())), expected);
      }
    }
  }
}

TEST_F(ParallelFor, ManyShortJobsInARow) {
  qkv::set_threads(4);
  std::vector<int64_t> sums(64);
  for (int round = 0; round < 5000; ++round) {
    qkv::parallel_for(64, 1, [&](int64_t begin, int64_t) { sums[static_cast<size_t>(begin)] += begin; });
  }
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(sums[static_cast<size_t>(i)], 5000 * i);
}

TEST_F(ParallelFor, UsesSeveralThreads) {
  qkv::set_threads(2);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  std::atomic<int> inside{0};
  // Each piece waits for the other, with a time limit.
  qkv::parallel_for(2, 1, [&](int64_t, int64_t) {
    ++inside;
    for (int i = 0; i < 10000 && inside < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(seen.size(), 2u);
}

TEST_F(ParallelFor, NestedAndConcurrentCallsFinish) {
  qkv::set_threads(3);
  const auto work = [] {
    std::atomic<int64_t> total{0};
    for (int round = 0; round < 50; ++round) {
      qkv::parallel_for(8, 1, [&](int64_t, int64_t) {
        qkv::parallel_for(8, 1, [&](int64_t begin, int64_t) { total += begin; });
      });
    }
    return total.load();
  };
  int64_t other = 0;
  std::thread thread([&] { other = work(); });
  EXPECT_EQ(work(), 50 * 8 * 28);
  thread.join();
  EXPECT_EQ(other, 50 * 8 * 28);
}

TEST_F(ParallelFor, ThrowsTheBodysExceptionAndGoesOnWorking) {
  qkv::set_threads(3);
  for (int round = 0; round < 100; ++round) {
    EXPECT_THROW(qkv::parallel_for(100, 1,
                                   [](int64_t begin, int64_t) {
                                     if (begin % 7 == 3) throw std::runtime_error("body");
                                   }),
                 std::runtime_error);
  }
  std::atomic<int> ran{0};
  qkv::parallel_for(10, 1, [&](int64_t, int64_t) { ++ran; });
  EXPECT_EQ(ran, 10);
}

TEST_F(ParallelFor, RefusesSenselessThreadCounts) {
  EXPECT_THROW(qkv::set_threads(0), qkv::UsageError);
  EXPECT_THROW(qkv::set_threads(-3), qkv::UsageError);
}

}  // namespace
