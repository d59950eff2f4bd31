#pragma once
// What the connections of an HTTP server share.

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "qkv/serve/http/handler_threads.h"
#include "qkv/serve/http/server.h"

namespace qkv::serve {

class Connection;

// Owned by the server, its connections and its replies; replies may outlive the server. The network thread
// runs `io`; all state of connections is that thread's.
struct HttpCore {
  HttpCore(const HttpOptions& http_options, HttpServer::Handler request_handler)
      : options(http_options), handler(std::move(request_handler)), handlers(http_options.handler_threads) {}

  // The threads for a request of this path.
  HandlerThreads& threads_for(std::string_view path) {
    return options.is_quick && options.is_quick(path) ? quick_handler : handlers;
  }

  // Runs `action` on the network thread; never, once the server has stopped.
  template <class Action>
  void post(Action action) {
    const std::lock_guard lock(mutex);
    if (!stopped) boost::asio::post(io, std::move(action));
  }

  // Requests whose answers are not written completely.
  void add_active(int64_t change) {
    const std::lock_guard lock(mutex);
    active += change;
    if (active == 0) idle.notify_all();
  }

  HttpOptions options;
  HttpServer::Handler handler;
  boost::asio::io_context io{1};
  HandlerThreads handlers;
  HandlerThreads quick_handler{1};
  std::set<Connection*> connections;  // the network thread's
  bool draining = false;              // the network thread's: answers are the last of their connections

  std::atomic<int64_t> pending_bytes = 0;  // of HttpOptions::pending_bytes

  std::atomic<int64_t> open = 0, accepted = 0, requests = 0, malformed = 0;

  std::mutex mutex;
  std::condition_variable idle;
  bool stopped = false;  // guarded, as is the next
  int64_t active = 0;
};

using HttpCoreHandle = std::shared_ptr<HttpCore>;

// Bytes that count as pending while it lives.
class PendingBytes {
 public:
  explicit PendingBytes(HttpCoreHandle core) : core_(std::move(core)) {}
  ~PendingBytes() { set(0); }
  PendingBytes(const PendingBytes&) = delete;
  PendingBytes& operator=(const PendingBytes&) = delete;

  int64_t get() const { return bytes_; }
  void set(int64_t bytes) { core_->pending_bytes += bytes - std::exchange(bytes_, bytes); }

 private:
  HttpCoreHandle core_;
  int64_t bytes_ = 0;
};

}  // namespace qkv::serve
