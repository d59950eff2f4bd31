#pragma once
// A client's call: it may leave, and its time is limited.

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "qkv/serve/error.h"
#include "qkv/serve/work/fair_queue.h"

namespace qkv::serve {

// Shared by the connection, which may cancel, and the workers that the call is queued at.
class Call {
 public:
  // keep: what the call needs until it ends, such as its model.
  Call(std::string client, Clock::time_point deadline, std::shared_ptr<void> keep = {})
      : client_(std::move(client)), deadline_(deadline), keep_(std::move(keep)) {}

  const std::string& client() const { return client_; }
  Clock::time_point deadline() const { return deadline_; }
  bool cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }

  // Throws DeadlineExceeded after the deadline, and Cancelled for a call whose client has left: for work in
  // parts, before each.
  void require_wanted() const {
    if (deadline_ <= Clock::now()) throw DeadlineExceeded();
    if (cancelled()) throw Cancelled();
  }

  // Runs every action of on_cancel(), once. Later actions run at once.
  void cancel() {
    std::vector<std::function<void()>> actions;
    {
      const std::lock_guard lock(mutex_);
      if (cancelled_) return;
      cancelled_ = true;
      actions.swap(actions_);
    }
    for (const auto& action : actions) action();
  }
  void on_cancel(std::function<void()> action) {
    {
      const std::lock_guard lock(mutex_);
      if (!cancelled_) return actions_.push_back(std::move(action));
    }
    action();
  }

 private:
  std::string client_;
  Clock::time_point deadline_;
  std::shared_ptr<void> keep_;
  mutable std::mutex mutex_;
  bool cancelled_ = false;
  std::vector<std::function<void()>> actions_;
};

using CallHandle = std::shared_ptr<Call>;

}  // namespace qkv::serve
