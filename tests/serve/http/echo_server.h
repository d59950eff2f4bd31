#pragma once
// What the tests of the HTTP server share.

#include <chrono>
#include <string>
#include <thread>

#include "qkv/serve/http/server.h"

namespace qkv::testing {

// Answers with what it was asked: "POST /path a=1 host=test body".
inline void echo(const serve::HttpRequest& request, const serve::ReplyHandle& reply) {
  std::string text = request.method + " " + request.path;
  for (const auto& [key, value] : request.query) text += " " + key + "=" + value;
  text += " host=" + std::string(request.header("HOST")) + " " + request.body;
  reply->send({.content_type = "text/plain", .body = text});
}

inline serve::HttpOptions any_port() {
  serve::HttpOptions options;
  options.port = 0;
  return options;
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Waits, up to half a minute, for something that another thread does.
template <class Condition>
bool soon(const Condition& condition) {
  for (int i = 0; i < 3000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace qkv::testing
