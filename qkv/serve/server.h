#pragma once
// Models behind HTTP: a Service and an HttpServer.
//
//   serve::Server server({.service = {.folders = {{"m", "model"}}}, .http = {.port = 8080}});
//   ... until the process is to end ...
//   server.stop(std::chrono::seconds(30));

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "qkv/serve/http/server.h"
#include "qkv/serve/service.h"

namespace qkv::serve {

struct ServerOptions {
  ServiceOptions service;
  HttpOptions http = {};
};

class Server {
 public:
  // Opens the models, then listens. Throws the errors of Service and HttpServer.
  explicit Server(const ServerOptions& options)
      : service_(options.service),
        http_(with_service(options.http), [this](HttpRequest request, ReplyHandle reply) {
          service_.handle(std::move(request), std::move(reply));
        }) {
    service_.count_http([this] { return http_.counts(); });
  }

  Service& service() { return service_; }
  uint16_t port() const { return http_.port(); }

  // From now on /ready answers 503, while all other requests are still answered.
  void drain() { service_.drain(); }

  // drain(); accepts nothing, waits up to `bound` for in-flight responses, and cuts off the rest. Returns the
  // number of requests cut off.
  int64_t stop(std::chrono::milliseconds bound) {
    drain();
    return http_.stop(bound);
  }

 private:
  HttpOptions with_service(HttpOptions options) {
    options.is_quick = [this](std::string_view path) { return service_.is_quick(path); };
    options.deadline_of = [this](const HttpRequest& request) { return service_.deadline_of(request); };
    options.client_of = [this](const HttpRequest& request) { return service_.client_of(request); };
    options.refusal_headers = service_.common_headers();
    options.on_refused = [this](const std::string& peer, int status) { service_.note_refused(peer, status); };
    return options;
  }

  Service service_;
  HttpServer http_;  // last: its handler uses the service
};

}  // namespace qkv::serve
