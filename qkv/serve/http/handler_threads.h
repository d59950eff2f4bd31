#pragma once
// The threads that run the handler of an HTTP server.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "qkv/serve/work/fair_queue.h"

namespace qkv::serve {

// Clients take turns. Of several threads, one client never has all.
class HandlerThreads {
 public:
  explicit HandlerThreads(int threads);
  ~HandlerThreads() { join(); }
  HandlerThreads(const HandlerThreads&) = delete;
  HandlerThreads& operator=(const HandlerThreads&) = delete;

  // Tasks must not throw.
  void add(const std::string& client, std::function<void()> task);
  // Runs the tasks that wait, then ends the threads.
  void join();

 private:
  void run(std::optional<std::string>& client);

  std::mutex mutex_;
  std::condition_variable changed_;
  FairQueue<std::function<void()>> waiting_;         // guarded, as are the next two
  std::vector<std::optional<std::string>> running_;  // the client of each thread's task
  bool joining_ = false;
  std::vector<std::thread> threads_;  // last: uses all of the above
};

}  // namespace qkv::serve
