#include "qkv/base/parallel.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/base/mpi.h"
#include "qkv/base/processors.h"
#include "qkv/base/thread.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace qkv {
namespace {

constexpr int kMaxThreads = 1024;

// Processes of a launcher on one host share its processors, unless the launcher has bound each to some.
int default_threads() {
  const int on_host = launched_on_host();
  const int sharing = on_host > 1 && bound_by_launcher() ? 1 : on_host;
  return std::clamp(available_processors() / sharing, 1, kMaxThreads);
}

std::atomic<int>& thread_count() {
  static std::atomic<int> count{default_threads()};
  return count;
}

thread_local bool inside_parallel_for = false;

// One parallel_for in progress: its threads take pieces until none is left.
class Job {
 public:
  Job(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body)
      : count_(count), grain_(grain), body_(body) {}

  void work() {
    inside_parallel_for = true;
    for (;;) {
      const int64_t begin = next_.fetch_add(grain_);
      if (begin >= count_) break;
      try {
        body_(begin, std::min(begin + grain_, count_));
      } catch (...) {
        next_.store(count_);  // no further pieces are started
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
      }
    }
    inside_parallel_for = false;
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const int64_t count_, grain_;
  const std::function<void(int64_t, int64_t)>& body_;
  std::atomic<int64_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
};

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// Waits until `changed` is true: first spins, because the next job of a training step comes within
// microseconds, then sleeps, to leave the processor to other programs.
template <class T, class Predicate>
void await(std::atomic<T>& value, const Predicate& changed) {
  constexpr int kSpins = 2000;  // about 20 to 40 microseconds
  for (int i = 0; i < kSpins; ++i) {
    if (changed(value.load(std::memory_order_acquire))) return;
    pause();
  }
  for (T seen = value.load(std::memory_order_acquire); !changed(seen);
       seen = value.load(std::memory_order_acquire)) {
    value.wait(seen, std::memory_order_acquire);
  }
}

// The threads that help the caller of parallel_for. A job does not wait for helpers that have not woken up by
// the time the work is done, so on a busy machine it only loses the processors that are taken.
class Helpers {
 public:
  // Runs the job on the caller and up to `wanted` helpers. Only one job runs at a time: returns false,
  // without doing anything, if another thread's job is running.
  bool run(Job& job, int wanted) {
    const std::unique_lock busy(one_at_a_time_, std::try_to_lock);
    if (!busy) return false;
    wanted = start(wanted);
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      places_ = wanted;
    }
    jobs_.fetch_add(1, std::memory_order_release);
    jobs_.notify_all();
    job.work();
    {
      const std::lock_guard lock(mutex_);
      job_ = nullptr;  // no helper may join any more
    }
    await(working_, [](int working) { return working == 0; });
    return true;
  }

 private:
  // The available helpers, at most `wanted`.
  int start(int wanted) {
    try {
      for (; started_ < wanted; ++started_) start_thread([this] { help(); }).detach();
    } catch (const std::system_error& error) {
      warn_once(error.what());
    } catch (const std::bad_alloc&) {
      warn_once("out of memory");
    }
    return std::min(started_, wanted);
  }

  void warn_once(const char* reason) {
    if (std::exchange(warned_, true)) return;
    log_warning(concat("cannot start a thread (", reason, "): working with ", started_ + 1, " in place of ",
                       threads()));
  }

  void help() {
    for (uint64_t seen = 0;;) {
      await(jobs_, [seen](uint64_t jobs) { return jobs != seen; });
      seen = jobs_.load(std::memory_order_acquire);
      Job* job = nullptr;
      {
        const std::lock_guard lock(mutex_);
        if (job_ && places_ > 0) {
          --places_;
          job = job_;
          working_.fetch_add(1, std::memory_order_relaxed);
        }
      }
      if (!job) continue;
      job->work();
      if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) working_.notify_one();
    }
  }

  std::mutex one_at_a_time_;
  int started_ = 0;
  bool warned_ = false;

  std::mutex mutex_;  // protects the next two
  Job* job_ = nullptr;
  int places_ = 0;

  std::atomic<uint64_t> jobs_{0};  // number of jobs so far; helpers wait on it
  std::atomic<int> working_{0};    // number of helpers inside the job; the caller waits on it
};

// Never destroyed, because its threads wait in it until the process ends. After fork(), a child has none of
// the threads, and possibly their locks, so it starts new helpers.
Helpers& helpers() {
  alignas(Helpers) static std::byte memory[sizeof(Helpers)];
  static auto* instance = [] {
    ::pthread_atfork(nullptr, nullptr, [] { ::new (memory) Helpers; });
    return ::new (memory) Helpers;
  }();
  return *instance;
}

}  // namespace

int threads() { return thread_count(); }

void set_threads(int count) {
  if (count < 1 || count > kMaxThreads)
    throw UsageError(concat("threads: expected 1 to ", kMaxThreads, ", found ", count));
  thread_count() = count;
}

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t pieces = (count + grain - 1) / grain;
  const int workers = static_cast<int>(std::min<int64_t>(pieces, threads()));
  if (workers > 1 && !inside_parallel_for) {
    Job job(count, grain, body);
    if (helpers().run(job, workers - 1)) {
      job.rethrow();
      return;
    }
  }
  for (int64_t begin = 0; begin < count; begin += grain) body(begin, std::min(begin + grain, count));
}

}  // namespace qkv
