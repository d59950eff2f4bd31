#include "qkv/serve/http/handler_threads.h"

#include <algorithm>
#include <utility>

namespace qkv::serve {

HandlerThreads::HandlerThreads(int threads) : running_(static_cast<size_t>(threads)) {
  for (auto& client : running_) threads_.emplace_back([this, &client] { run(client); });
}

void HandlerThreads::add(const std::string& client, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push({.client = client, .job = std::move(task)});
  }
  changed_.notify_one();
}

void HandlerThreads::run(std::optional<std::string>& client) {
  const auto most = std::max<std::ptrdiff_t>(1, std::ssize(running_) - 1);
  std::unique_lock lock(mutex_);
  while (true) {
    auto entry =
        waiting_.pop([&](const std::string& one) { return std::ranges::count(running_, one) < most; });
    if (entry) {
      client = std::move(entry->client);
      lock.unlock();
      entry->job();
      entry.reset();
      lock.lock();
      client.reset();
      changed_.notify_one();  // another task of this client may run now
    } else if (joining_ && waiting_.empty()) {
      return changed_.notify_all();
    } else {
      changed_.wait(lock);
    }
  }
}

void HandlerThreads::join() {
  {
    const std::lock_guard lock(mutex_);
    joining_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace qkv::serve
