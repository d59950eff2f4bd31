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

#include "qkv/serve/http/reply.h"

namespace qkv::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";   // address to listen on; "::" listens on IPv6 and IPv4
  uint16_t port = 8080;             // 0: any free port
  bool reuse_port = false;          // SO_REUSEPORT: several processes share the port
  int handler_threads = 4;          // threads that run the handler
  int64_t body_bytes = 8 << 20;     // largest body of a request; more is answered 413
  int64_t header_bytes = 16 << 10;  // of the request line and all header fields; more is answered 431
  int64_t header_fields = 100;      // more are answered 431
  // Of all requests that are received, wait or are handled. If there are more, the largest of those that have
  // not arrived completely are answered 503.
  int64_t pending_bytes = 256 << 20;
  int64_t stream_buffer_bytes = 1 << 20;  // unsent bytes of a stream before its client counts as gone
  int64_t connections = 4096;             // open at once; more are answered 503 and closed
  std::chrono::milliseconds header_timeout{
      10'000};  // from the first byte of a request to the end of its header
  std::chrono::milliseconds body_timeout{30'000};   // from the end of the header to the end of the body
  std::chrono::milliseconds idle_timeout{75'000};   // between requests of a connection
  std::chrono::milliseconds write_timeout{30'000};  // without progress of a write
  std::string certificate = {}, private_key = {};   // PEM files: both given, TLS 1.2 or later; none: plain
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

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

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
