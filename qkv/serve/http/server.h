#pragma once
// An HTTP/1.1 server: connections, limits and time-outs. It knows nothing of models.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/base/option_field.h"
#include "qkv/serve/http/reply.h"

namespace qkv::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  bool reuse_port = false;  // SO_REUSEPORT
  int64_t body_bytes = 8 << 20, pending_bytes = 256 << 20, connections = 4096;
  std::chrono::milliseconds header_timeout{10'000}, body_timeout{30'000}, write_timeout{30'000},
      idle_timeout{75'000};
  std::string certificate = {}, private_key = {};  // both given: TLS 1.2 or later
  int handler_threads = 4;
  int64_t header_bytes = 16 << 10, header_fields = 100, stream_buffer_bytes = 1 << 20;
  // Paths whose requests have a thread of their own, so that they are answered while all others work; none.
  // From any thread.
  std::function<bool(std::string_view path)> is_quick = {};
  // When a request is answered 504 if no handler has begun with it; no function: never. On the network
  // thread.
  std::function<std::chrono::steady_clock::time_point(const HttpRequest& request)> deadline_of = {};
  // Clients take turns at the handlers; no function: a client is an address. On the network thread.
  std::function<std::string(const HttpRequest& request)> client_of = {};
  // Fields of answers that no handler gives.
  std::vector<std::pair<std::string, std::string>> refusal_headers = {};
  // Told of each request that is refused before a handler sees it. On the network thread; must not throw.
  std::function<void(const std::string& peer, int status)> on_refused = {};

  static constexpr std::string_view kInCode = "in code";  // options that the command line does not have
  template <class Self, class Visit>
  static void visit_fields(Self&& self, const Visit& visit);
  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

template <class Self, class Visit>
void HttpOptions::visit_fields(Self&& self, const Visit& visit) {
  const Range seconds = between(0.001, 1'000'000);
  visit({"host", "ADDRESS", "Address to listen on; '::' listens on IPv6 and IPv4"}, self.host);
  visit({"port", "PORT", "Port to listen on; 0: any free one", between(0, 65535)}, self.port);
  visit({"reuse_port", "", "Share the port with other qkv processes (SO_REUSEPORT)"}, self.reuse_port);
  visit({"body_bytes", "BYTES", "Maximum size of a request body; then 413", at_least(0)}, self.body_bytes);
  visit(
      OptionField{
          "pending_bytes", "BYTES",
          "Maximum size of all requests that arrive, wait or are handled together; 503 for the largest "
          "incomplete ones beyond",
          at_least(1)},
      self.pending_bytes);
  visit({"connections", "N", "Maximum number of open connections; then 503", at_least(1)}, self.connections);
  visit({"header_timeout", "SECONDS", "Maximum time to receive a request's header; then 408", seconds},
        self.header_timeout);
  visit({"body_timeout", "SECONDS", "Maximum time to receive a request's body; then 408", seconds},
        self.body_timeout);
  visit({"write_timeout", "SECONDS",
         "Maximum time for a client to accept more of a response; then the connection is closed", seconds},
        self.write_timeout);
  visit({"idle_timeout", "SECONDS", "Maximum time between two requests of a connection", seconds},
        self.idle_timeout);
  visit({"certificate", "FILE", "Certificate chain for TLS, PEM (default: none, plain HTTP)"},
        self.certificate);
  visit({"private_key", "FILE", "Its private key, PEM (default: none)"}, self.private_key);
  visit({"handler_threads", "N", "Threads that run the handler", at_least(1), kInCode}, self.handler_threads);
  visit({"header_bytes", "BYTES", "Size of the request line and the header fields; then 431",
         between(256, 16 << 20), kInCode},
        self.header_bytes);
  visit({"header_fields", "N", "Number of header fields; then 431", at_least(1), kInCode},
        self.header_fields);
  visit({"stream_buffer_bytes", "BYTES", "Unsent bytes of a stream before its client counts as gone",
         at_least(1), kInCode},
        self.stream_buffer_bytes);
}

struct HttpCounts {
  int64_t connections = 0;    // open now
  int64_t accepted = 0;       // since the start
  int64_t requests = 0;       // complete requests since the start
  int64_t malformed = 0;      // refused before a handler saw them: 400, 408, 413, 431, 501, 503, 505
  int64_t pending_bytes = 0;  // HttpOptions::pending_bytes, now
};

// Answers each request with `handler`, which runs on one of handler_threads and may answer later, from any
// thread. Requests of one connection are answered one after another; further ones (pipelining) wait. A client
// that closes its sending side counts as gone.
//
// Refused without the handler, as JSON {"error": {"message", "type", "code": null}}: a malformed request
// (400), a time-out (408), large bodies (413), headers, chunk extensions and trailers (431), transfer codings
// but chunked (501), a passed deadline (504), other versions (505), and with Retry-After a connection too
// many, more than pending_bytes, out of memory, and a request that has not arrived completely when the server
// stops (503; with TLS, a connection too many is closed). An exception of the handler is answered 500.
class HttpServer {
 public:
  using Handler = std::function<void(HttpRequest request, ReplyHandle reply)>;

  // Listens at once: connections are accepted, and answered, from here on. Throws UsageError for bad options,
  // IoError for an address or port that cannot be used and for unreadable certificates.
  HttpServer(const HttpOptions& options, Handler handler);
  // stop(0 s).
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;  // the one that is listened on
  HttpCounts counts() const;

  // Stops accepting, closes idle connections, waits up to `bound` for in-flight responses, then closes the
  // rest. Returns the number of requests that were cut off. Later calls return 0.
  int64_t stop(std::chrono::milliseconds bound);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qkv::serve
