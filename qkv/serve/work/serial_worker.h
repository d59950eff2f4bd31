#pragma once
// A thread that runs the jobs of all clients of a model one after another: scoring, attention weights,
// decoding of images.

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "qkv/serve/work/call.h"
#include "qkv/serve/work/counters.h"
#include "qkv/serve/work/fair_queue.h"

namespace qkv::serve {

struct SerialJob {
  std::function<void()> run;  // may throw; Cancelled for a client that has left
  std::function<void(const std::exception_ptr&)> on_failed;  // instead of run, or after it threw
};

class SerialWorker {
 public:
  // queue: waiting jobs at most.
  explicit SerialWorker(size_t queue);
  // Ends all jobs with ShuttingDown.
  ~SerialWorker();
  SerialWorker(const SerialWorker&) = delete;
  SerialWorker& operator=(const SerialWorker&) = delete;

  // A job whose call is cancelled before its turn is dropped at once. Throws QueueFull and ShuttingDown.
  void submit(const CallHandle& call, SerialJob job, QueueLimit limit = QueueLimit::counts);

  const WorkerCounters& counters() const { return counters_; }

 private:
  struct Queued {
    CallHandle call;
    SerialJob job;
  };

  void run();
  void run_one(const Queued& queued, bool stopping);
  void drop(uint64_t id);

  size_t queue_limit_;
  WorkerCounters counters_;
  std::mutex mutex_;
  std::condition_variable changed_;
  FairQueue<Queued> waiting_;  // guarded, as are the next two
  uint64_t submitted_ = 0;
  bool stopping_ = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace qkv::serve
