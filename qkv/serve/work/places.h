#pragma once
// Bounds the memory of work in progress.

#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "qkv/serve/work/call.h"
#include "qkv/serve/work/fair_queue.h"

namespace qkv::serve {

// Lets a limited number of calls begin their work at a time. Clients take turns among the calls that wait.
// Thread-safe.
class Places {
 public:
  explicit Places(size_t places) : free_(places) {}

  // Calls begin() at once if there is a free place, else when one becomes free, on the thread that calls
  // leave(). A call that is cancelled before is dropped. Each begin() is followed by one leave(). begin()
  // must not throw.
  void enter(const CallHandle& call, const std::function<void()>& begin) {
    uint64_t id = 0;  // 0: it does not wait
    {
      const std::lock_guard lock(mutex_);
      if (free_ > 0) {
        --free_;
      } else {
        id = ++waited_;
        waiting_.push({.id = id, .client = call->client(), .deadline = call->deadline(), .job = begin});
      }
    }
    if (id == 0) return begin();
    call->on_cancel([this, id] { drop(id); });
  }

  void leave() {
    std::optional<Queue::Entry> next;
    {
      const std::lock_guard lock(mutex_);
      next = waiting_.pop();
      if (!next) ++free_;
    }
    if (next) next->job();
  }

 private:
  using Queue = FairQueue<std::function<void()>>;

  void drop(uint64_t id) {
    Queue::Entries dropped;  // destroyed after the lock
    const std::lock_guard lock(mutex_);
    dropped = waiting_.remove_if([id](const auto& entry) { return entry.id == id; });
  }

  std::mutex mutex_;
  Queue waiting_;  // guarded, as are the next two
  size_t free_;
  uint64_t waited_ = 0;
};

}  // namespace qkv::serve
