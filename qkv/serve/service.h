#pragma once
// Answers HTTP requests with models: finds the route, checks the key, and counts.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "qkv/serve/http/server.h"
#include "qkv/serve/metrics.h"
#include "qkv/serve/models.h"
#include "qkv/serve/protocols/route.h"

namespace qkv::serve {

struct ServiceOptions {
  std::vector<ModelFolder> folders;
  models::LoadOptions load = {};
  WorkOptions work = {};
  // Time from a request to its result; then 504. A client may ask for less: X-Timeout-Ms.
  std::chrono::milliseconds deadline{600'000};
  std::set<std::string, std::less<>> keys = {};  // API keys ("Authorization: Bearer KEY"); none: open to all
  std::string cors_origin = {};                  // Access-Control-Allow-Origin; empty: none
  // Receives a JSON object without line breaks for each request, when its answer is complete or its client
  // has left: {"time", "id", "client", "method", "path", "status", "seconds", "bytes"}; status 499: left.
  // A request refused before it is understood has an empty id, method and path. The client is an address, and
  // "key abcd..." for a valid API key of more than eight characters. No texts. From any thread; must not
  // throw.
  std::function<void(const std::string& line)> log = {};
};

class Service {
 public:
  // Throws UsageError for an origin with a line break, and the errors of Models.
  explicit Service(const ServiceOptions& options);
  ~Service();

  // Answers a request, now or later, from any thread. Throws std::bad_alloc only.
  void handle(HttpRequest request, ReplyHandle reply);

  Models& models() { return models_; }
  // Opens all folders again; throws as Models::reload().
  void reload();
  // Likewise on a thread of its own, which calls `done` with the error, if any. Throws HttpError (409) while
  // another such call is under way. `done` must not throw.
  void reload_later(std::function<void(const std::exception_ptr& error)> done);
  // The deadline of a request: the service's, or an earlier one of X-Timeout-Ms.
  Clock::time_point deadline_of(const HttpRequest& request) const;
  // Who takes turns with others: a valid API key, else an address, as clients could invent unchecked keys.
  std::string client_of(const HttpRequest& request) const;
  // Fields of each answer: of CORS.
  std::vector<std::pair<std::string, std::string>> common_headers() const;
  // Whether requests of this path are answered at once.
  bool is_quick(std::string_view path) const;
  // Logs a request that the HTTP server has refused.
  void note_refused(const std::string& peer, int status);
  // False from now on at /ready, so that load balancers send clients elsewhere.
  void drain() { draining_ = true; }
  bool ready() const { return !draining_; }
  // For /metrics: the counts of the HTTP server.
  void count_http(std::function<HttpCounts()> counts);
  std::string metrics() const;

 private:
  bool is_known(std::string_view key) const;

  ServiceOptions options_;
  std::vector<Route> routes_;
  RequestMetrics metrics_;
  mutable std::mutex http_mutex_;
  std::function<HttpCounts()> http_counts_;
  std::atomic<uint64_t> requests_ = 0;
  std::atomic<int64_t> reloads_ = 0;
  std::atomic<bool> draining_ = false;
  std::mutex reloader_mutex_;
  std::atomic<bool> reloading_ = false;
  std::thread reloader_;
  uint64_t first_id_;  // so that ids of two processes differ
  Models models_;      // last: its workers use the rest
};

}  // namespace qkv::serve
