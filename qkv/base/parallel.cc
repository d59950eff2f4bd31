#include "qkv/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "qkv/base/error.h"

namespace qkv {
namespace {

std::atomic<int>& thread_count() {
  static std::atomic<int> count{std::max(1, static_cast<int>(std::thread::hardware_concurrency()))};
  return count;
}

thread_local bool inside_parallel_for = false;

// One parallel_for under way: workers take pieces until none is left.
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
        next_.store(count_);  // nobody starts another piece
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

void run_on_threads(int workers, Job& job) {
#ifdef QKV_STD_THREADS
  std::vector<std::thread> pool;
  pool.reserve(static_cast<size_t>(workers - 1));
  for (int i = 1; i < workers; ++i) pool.emplace_back([&job] { job.work(); });
  job.work();
  for (auto& thread : pool) thread.join();
#else
#pragma omp parallel num_threads(workers)
  job.work();
#endif
}

}  // namespace

int threads() { return thread_count(); }

void set_threads(int count) {
  if (count < 1 || count > 1024) throw UsageError(concat("threads: expected 1 to 1024, found ", count));
  thread_count() = count;
}

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t pieces = (count + grain - 1) / grain;
  const int workers = static_cast<int>(std::min<int64_t>(pieces, threads()));
  if (workers == 1 || inside_parallel_for) {
    for (int64_t begin = 0; begin < count; begin += grain) body(begin, std::min(begin + grain, count));
    return;
  }
  Job job(count, grain, body);
  run_on_threads(workers, job);
  job.rethrow();
}

}  // namespace qkv
