#pragma once
// A request and a response of HTTP/1.1 (RFC 9110, RFC 9112), independent of the network.

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qkv::serve {

// Compares names of header fields, ignoring the case of ASCII letters.
struct FieldNameLess {
  using is_transparent = void;
  bool operator()(std::string_view left, std::string_view right) const;
};

struct HttpRequest {
  std::string method;  // "GET", "POST", ...; in capitals as received
  std::string path;    // percent-decoded, without the query, begins with '/'
  std::map<std::string, std::string, std::less<>> query;  // percent-decoded; the last value of a repeated key
  std::map<std::string, std::string, FieldNameLess> headers;  // repeated fields are joined by ", "
  std::string body;
  std::string peer;  // the client's address without port, such as "127.0.0.1"
  std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now();  // completely
  std::shared_ptr<void> pending = {};  // counts the body as pending (HttpOptions) while it lives

  // A header field's value, or an empty string.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};  // besides Content-Type and Content-Length
};

// "Not Found" for 404.
std::string_view reason_phrase(int status);

// Splits a request's target, "/path?key=value" or "http://host/path?key=value", into path and query. Nothing
// for a target that has no such form, an incomplete percent sign, a control character or a NUL byte, or a
// path with a ".." segment.
struct Target {
  std::string path;
  std::map<std::string, std::string, std::less<>> query;
};
std::optional<Target> parse_target(std::string_view target);

}  // namespace qkv::serve
