#pragma once
// What the connections of an HTTP server share.

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "qkv/serve/http/server.h"

namespace qkv::serve {

class Connection;

// Owned by the server, its connections and its replies; replies may outlive the server. The network thread
// runs `io`; all state of connections is that thread's.
struct HttpCore {
  HttpCore(const HttpOptions& http_options, HttpServer::Handler request_handler)
      : options(http_options),
        handler(std::move(request_handler)),
        handlers(static_cast<size_t>(http_options.handler_threads)) {}

  // The threads for a request of this path.
  boost::asio::thread_pool& threads_for(std::string_view path) {
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
  boost::asio::thread_pool handlers;
  boost::asio::thread_pool quick_handler{1};
  std::set<Connection*> connections;  // the network thread's
  bool draining = false;              // the network thread's: answers are the last of their connections

  std::atomic<int64_t> open = 0, accepted = 0, requests = 0, malformed = 0;

  std::mutex mutex;
  std::condition_variable idle;
  bool stopped = false;  // guarded, as is the next
  int64_t active = 0;
};

using HttpCoreHandle = std::shared_ptr<HttpCore>;

}  // namespace qkv::serve
