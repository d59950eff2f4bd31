#pragma once
// An engine with a thread of its own: decodes the requests of all clients of a model side by side.

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "qkv/search/engine/engine.h"
#include "qkv/serve/work/call.h"
#include "qkv/serve/work/counters.h"
#include "qkv/serve/work/fair_queue.h"

namespace qkv::serve {

struct DecodeJob {
  search::Request request;
  // The result, exactly once, on the worker's thread: hypotheses, an error (DeadlineExceeded, ShuttingDown
  // and those of search::Engine), or `cancelled`. Must not throw.
  std::function<void(search::Decoded)> on_done;
};

// Requests join and leave between steps. Those that the engine has no room for wait in a queue that is fair
// to clients. A cancelled request is gone before the next step. The result of a request depends on it alone.
class DecodeWorker {
 public:
  // make_engine: called on the worker's thread, again after an error that the engine could not attribute to
  // requests. queue: waiting requests at most.
  DecodeWorker(std::function<search::Engine()> make_engine, const search::EngineOptions& options,
               size_t queue);
  // Ends all requests with ShuttingDown.
  ~DecodeWorker();
  DecodeWorker(const DecodeWorker&) = delete;
  DecodeWorker& operator=(const DecodeWorker&) = delete;

  // Queues the jobs of a call, all or none; the call's cancellation ends them. Throws QueueFull and
  // ShuttingDown.
  void submit(const CallHandle& call, std::vector<DecodeJob> jobs, QueueLimit limit = QueueLimit::counts);

  const WorkerCounters& counters() const { return counters_; }

 private:
  using Queue = FairQueue<DecodeJob>;

  void run();
  void cancel(uint64_t first, uint64_t end);
  void end(const Queue::Entry& entry, search::Decoded decoded);
  void end_all(const std::exception_ptr& error);
  void feed(search::Engine& engine);
  void drop_cancelled(search::Engine& engine, const std::set<uint64_t>& ids);
  void drop_expired(search::Engine& engine, bool at_once);

  std::function<search::Engine()> make_engine_;
  search::EngineOptions options_;
  size_t queue_limit_;
  WorkerCounters counters_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Queue waiting_;                 // guarded, as are the next three
  std::set<uint64_t> cancelled_;  // not seen by the thread yet
  uint64_t submitted_ = 0;
  bool stopping_ = false;

  // The thread's own.
  std::map<uint64_t, Queue::Entry> running_;  // by the engine's id
  Clock::time_point next_expiry_ = {};        // when to look for passed deadlines again

  std::thread thread_;  // last: uses all of the above
};

}  // namespace qkv::serve
