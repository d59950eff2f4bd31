#pragma once
// A client of HTTP/1.1: TLS, proxies, redirects, a time limit for silence. One request at a time.

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/hub/settings.h"
#include "qkv/hub/url.h"

namespace qkv::hub {

// A request that failed. After a transient failure, the same request may succeed.
class Failure : public IoError {
 public:
  Failure(const std::string& message, bool is_transient,
          std::optional<std::chrono::seconds> wait = std::nullopt)
      : IoError(message), transient(is_transient), retry_after(wait) {}

  bool transient;
  std::optional<std::chrono::seconds> retry_after;  // as the server asks
};

// Header fields, with names in lower case.
using HttpFields = std::map<std::string, std::string, std::less<>>;

struct Answer {
  Url url;  // that sent it
  int status = 0;
  HttpFields fields = {};
  std::string text = {};  // the beginning of the body, unless its status is 200 or 206

  std::string field(std::string_view name) const;  // empty: none
  bool is_redirect() const;
  bool is_good() const { return status == 200 || status == 206; }
};

struct Receiver {
  std::function<void(const Answer&)> head = {};     // of every answer, redirects included; may be empty
  std::function<void(std::string_view)> body = {};  // pieces of a good answer
};

class HttpClient {
 public:
  // The token is sent to the endpoint's scheme, host and port alone. `stop` ends requests with Stopped.
  HttpClient(const HubSettings& settings, const std::atomic<bool>* stop);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // GET, following up to 10 redirects, none from https to http. Throws Failure, and what the receiver throws.
  Answer get(const Url& url, const HttpFields& fields, const Receiver& receiver);

 private:
  struct Tls;
  class Connection;

  Answer get_once(const Url& url, const HttpFields& fields, const Receiver& receiver);

  HubSettings settings_;
  std::string trusted_origin_;
  const std::atomic<bool>* stop_;
  std::unique_ptr<Tls> tls_;
  std::map<std::string, std::unique_ptr<Connection>> idle_;  // by origin
};

}  // namespace qkv::hub
