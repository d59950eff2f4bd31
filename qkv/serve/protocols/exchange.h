#pragma once
// A request and its answer, as the protocols see them.

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "qkv/serve/error.h"
#include "qkv/serve/http/reply.h"
#include "qkv/serve/models.h"
#include "qkv/serve/work/call.h"

namespace qkv::serve {

class Exchange;
using ExchangeHandle = std::shared_ptr<Exchange>;

// A protocol's JSON for an error.
using ErrorShape = std::string (*)(const HttpError& error);

// {"error": {"message", "type", "param": null, "code"}}
std::string openai_error(const HttpError& error);

struct Route;

// Maps an exception to an HTTP error: 400 for input that the library refuses, 503 for memory that ran out,
// 500 for anything else.
HttpError as_http_error(const std::exception_ptr& error);

// Created and owned by the service; callbacks of workers hold it until the answer is complete.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(HttpRequest request, ReplyHandle reply, std::string request_id, std::string client,
           Clock::time_point deadline, const Route& route);

  const HttpRequest& request() const { return request_; }
  const Route& route() const { return route_; }
  const std::string& request_id() const { return request_id_; }

  // The call of this exchange at a model, which it keeps alive; the same each time. It is cancelled if the
  // client leaves, and soon after the deadline, which is then answered 504. Throws HttpError (503) if the
  // model's files have changed.
  CallHandle call(const ModelHandle& model);

  // Answers; only the first answer counts. All may be called from any thread.
  void send(HttpResponse response);
  void send_json(std::string body, int status = 200);
  void fail(const std::exception_ptr& error) noexcept;
  // Sends the error, if there is one or the model's files have changed, or runs `respond` and sends the error
  // that it throws.
  template <class Respond>
  void answer(const std::exception_ptr& error, const Respond& respond) noexcept {
    try {
      if (error) std::rethrow_exception(error);
      if (model_) model_->require_unchanged();
      respond();
    } catch (...) {
      fail(std::current_exception());
    }
  }

  // Server-sent events: the first begins the answer. Data without line breaks, such as JSON. An event for a
  // client that has left cancels its calls.
  void event(std::string_view data);
  void end_events();

 private:
  HttpResponse error_response(const HttpError& error) const;

  HttpRequest request_;
  ReplyHandle reply_;
  std::string request_id_, client_;
  Clock::time_point deadline_;
  const Route& route_;
  ModelHandle model_;
  CallHandle call_;
  bool events_ = false;  // begun; events of an exchange come one after another
};

}  // namespace qkv::serve
