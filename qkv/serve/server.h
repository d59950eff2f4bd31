#pragma once
// Models behind HTTP: a Service and an HttpServer.
//
//   serve::Server server({.service = {.folders = {{"m", "model"}}}, .http = {.port = 8080}});
//   ... until the process is to end ...
//   server.stop(std::chrono::seconds(30));

#include <chrono>
#include <cstdint>

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
      : service_(options.service), http_(options.http, [this](HttpRequest request, ReplyHandle reply) {
          service_.handle(std::move(request), std::move(reply));
        }) {
    service_.count_http([this] { return http_.counts(); });
  }

  Service& service() { return service_; }
  uint16_t port() const { return http_.port(); }

  // Not ready any more; accepts nothing, waits up to `bound` for answers under way, and cuts off the rest.
  // Returns the number of requests cut off.
  int64_t stop(std::chrono::milliseconds bound) {
    service_.drain();
    return http_.stop(bound);
  }

 private:
  Service service_;
  HttpServer http_;  // last: its handler uses the service
};

}  // namespace qkv::serve
