#pragma once
// An engine that several threads share. It has no thread of its own: a thread that waits for a result steps
// the engine, for all requests, unless another one does. So a process may fork between calls.

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "qkv/search/engine/engine.h"

namespace qkv::python {

class SharedEngine {
 public:
  struct Ticket {
    search::Request request;
    search::Decoded decoded;
    bool done = false, cancelled = false;
    std::optional<uint64_t> id = {};
  };
  using Handle = std::shared_ptr<Ticket>;

  // make: called before the first step, and after an error that concerns no single request.
  explicit SharedEngine(std::function<search::Engine()> make) : make_(std::move(make)) {}

  // All functions are called without the GIL.
  std::vector<Handle> submit(std::vector<search::Request> requests);
  // Returns when ready() holds, which is called under the lock. Throws KeyboardInterrupt (nb::python_error),
  // and UsageError in a child that was forked while another thread stepped.
  void wait(const std::function<bool()>& ready);
  // Ends requests whose results nobody wants.
  void cancel(const std::vector<Handle>& tickets);
  // submit() and wait() for all, the longest source first; results are in the order of the requests.
  std::vector<search::Decoded> decode(std::vector<search::Request> requests);
  // For what request callbacks and ready() share.
  std::mutex& mutex() { return mutex_; }

 private:
  void step(std::unique_lock<std::mutex>& lock);

  std::function<search::Engine()> make_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stepping_ = false;
  int stepping_process_ = 0;
  std::vector<Handle> pending_, cancelled_;
  // Of the thread that steps; while none does, of the lock's holder.
  std::unique_ptr<search::Engine> engine_;
  std::map<uint64_t, Handle> running_;
};

}  // namespace qkv::python
