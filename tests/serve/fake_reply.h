#pragma once
// Requests to a Service without a network.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkv/serve/service.h"

namespace qkv::testing {

// Records an answer, and may leave in the middle of it.
class FakeReply : public serve::Reply {
 public:
  bool send(serve::HttpResponse response) override { return take(std::move(response), true); }
  bool begin(serve::HttpResponse response) override { return take(std::move(response), false); }
  bool write(std::string data) override {
    const std::lock_guard lock(mutex_);
    if (left_) return false;
    response_.body += data;
    ++writes_;
    changed_.notify_all();
    return true;
  }
  void end(std::optional<int> failed) override {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    failed_ = failed;
    changed_.notify_all();
  }
  // The status of an error in a stream.
  std::optional<int> failed() const {
    const std::lock_guard lock(mutex_);
    return failed_;
  }
  bool closed() const override {
    const std::lock_guard lock(mutex_);
    return left_;
  }
  void on_closed(std::function<void()> callback) override {
    {
      const std::lock_guard lock(mutex_);
      if (!left_) {
        on_closed_ = std::move(callback);
        return;
      }
    }
    callback();
  }

  void at(std::chrono::steady_clock::time_point /*time*/, std::function<void()> callback) override {
    const std::lock_guard lock(mutex_);
    at_ = std::move(callback);
  }

  // The time of at() has come.
  void pass_time() {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      callback.swap(at_);
    }
    if (callback) callback();
  }

  // The client leaves.
  void leave() {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      left_ = true;
      callback.swap(on_closed_);
    }
    if (callback) callback();
  }

  // The complete answer; status 0 if it takes longer than a minute.
  serve::HttpResponse wait() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::minutes(1), [&] { return ended_; })) return {.status = 0};
    return response_;
  }
  bool wait_for_end(std::chrono::seconds most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [&] { return ended_; });
  }
  // Waits for the beginning of an answer.
  bool wait_for_writes(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return writes_ >= count || ended_; });
  }

 private:
  bool take(serve::HttpResponse response, bool whole) {
    const std::lock_guard lock(mutex_);
    if (answered_ || left_) return false;
    answered_ = true;
    ended_ = whole;
    response_ = std::move(response);
    ++writes_;
    changed_.notify_all();
    return true;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  serve::HttpResponse response_;
  bool answered_ = false, ended_ = false, left_ = false;
  int writes_ = 0;
  std::function<void()> on_closed_, at_;
  std::optional<int> failed_;
};

struct Sent {
  std::string method = "POST";
  std::string path = {};
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

inline std::shared_ptr<FakeReply> start(serve::Service& service, const Sent& sent) {
  serve::HttpRequest request;
  request.method = sent.method;
  const auto target = serve::parse_target(sent.path);
  request.path = target.value().path;
  request.query = target->query;
  for (const auto& [name, value] : sent.headers) request.headers[name] = value;
  request.body = sent.body;
  request.peer = "127.0.0.1";
  auto reply = std::make_shared<FakeReply>();
  service.handle(std::move(request), reply);
  return reply;
}

inline serve::HttpResponse ask(serve::Service& service, const Sent& sent) {
  return start(service, sent)->wait();
}

inline serve::HttpResponse post(serve::Service& service, const std::string& path,
                                const nlohmann::json& body) {
  return ask(service, {.path = path, .body = body.dump()});
}

// The data of server-sent events, in order.
inline std::vector<std::string> events_of(const std::string& body) {
  std::vector<std::string> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    if (end == std::string::npos || body.compare(at, 6, "data: ") != 0)
      return {"malformed: " + body.substr(at)};
    events.push_back(body.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return events;
}

inline std::string header_of(const serve::HttpResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return {};
}

}  // namespace qkv::testing
