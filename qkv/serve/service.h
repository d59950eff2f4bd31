#pragma once
// Answers HTTP requests with models: finds the route, checks the key, and counts.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
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
  // From any thread. No texts, and of a key its first four characters. Must not throw.
  std::function<void(const std::string& line)> log = {};
};

class Service {
 public:
  // Throws the errors of Models.
  explicit Service(const ServiceOptions& options);

  // Answers a request, now or later, from any thread. Never throws.
  void handle(HttpRequest request, ReplyHandle reply);

  Models& models() { return models_; }
  // Opens all folders again; throws as Models::reload().
  void reload();
  // False from now on at /ready, so that load balancers send clients elsewhere.
  void drain() { draining_ = true; }
  bool ready() const { return !draining_; }
  // For /metrics: the counts of the HTTP server.
  void count_http(std::function<HttpCounts()> counts);
  std::string metrics() const;

 private:
  void answer(const Route& route, const ExchangeHandle& exchange);

  ServiceOptions options_;
  std::vector<Route> routes_;
  RequestMetrics metrics_;
  mutable std::mutex http_mutex_;
  std::function<HttpCounts()> http_counts_;
  std::atomic<uint64_t> requests_ = 0;
  std::atomic<int64_t> reloads_ = 0;
  std::atomic<bool> draining_ = false;
  uint64_t first_id_;  // so that ids of two processes differ
  Models models_;      // last: its workers use the rest
};

}  // namespace qkv::serve
