#include "qkv/base/parallel.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <map>
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

TEST_F(ParallelFor, CoversTheRangeOnceInThreadInvariantPieces) {
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

// The threads that work on two pieces, each of which waits for the other, or gives up after a while.
size_t threads_at_once() {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  std::atomic<int> inside{0};
  qkv::parallel_for(2, 1, [&](int64_t, int64_t) {
    ++inside;
    for (int i = 0; i < 5000 && inside < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  return seen.size();
}

TEST_F(ParallelFor, UsesSeveralThreads) {
  qkv::set_threads(2);
  EXPECT_EQ(threads_at_once(), 2u);
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

TEST_F(ParallelFor, RethrowsAndStaysUsable) {
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

// A child after fork() has none of the parent's threads, also where another thread's work was under way.
TEST_F(ParallelFor, WorksAfterFork) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "needs a build without ThreadSanitizer";
#endif
  qkv::set_threads(2);
  EXPECT_EQ(threads_at_once(), 2u);
  std::atomic<bool> started{false}, done{false};
  std::thread busy([&] {
    for (started = true; !done;) qkv::parallel_for(64, 1, [](int64_t, int64_t) {});
  });
  // AddressSanitizer of GCC 12 holds a lock while a thread starts, and a child forked then can start none.
  while (!started) std::this_thread::yield();
  for (int round = 0; round < 10; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      ::_exit(static_cast<int>(threads_at_once()));
    }
    int status = 0;
    if (child > 0) ::waitpid(child, &status, 0);
    EXPECT_TRUE(child > 0 && WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 2) << "threads in the child, round " << round;
  }
  done = true;
  busy.join();
}

// Crash handlers and profilers see helpers; the program's own signals (SIGINT, SIGALRM) never run on one.
TEST_F(ParallelFor, HelpersBlockAllButCrashSignals) {
  qkv::set_threads(2);
  std::mutex mutex;
  std::map<std::thread::id, sigset_t> masks;
  std::atomic<int> inside{0};
  qkv::parallel_for(2, 1, [&](int64_t, int64_t) {
    ++inside;
    for (int i = 0; i < 10000 && inside < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::lock_guard lock(mutex);
    ::pthread_sigmask(SIG_BLOCK, nullptr, &masks[std::this_thread::get_id()]);
  });
  ASSERT_EQ(masks.size(), 2u);
  masks.erase(std::this_thread::get_id());
  const sigset_t& helper = masks.begin()->second;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF})
    EXPECT_FALSE(::sigismember(&helper, signal)) << signal;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGCHLD, SIGUSR1})
    EXPECT_TRUE(::sigismember(&helper, signal)) << signal;
}

TEST_F(ParallelFor, RejectsInvalidThreadCounts) {
  EXPECT_THROW(qkv::set_threads(0), qkv::UsageError);
  EXPECT_THROW(qkv::set_threads(-3), qkv::UsageError);
}

}  // namespace
