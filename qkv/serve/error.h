#pragma once
// Errors with the HTTP status that clients receive.

#include <exception>
#include <string>
#include <utility>

#include "qkv/base/error.h"

namespace qkv::serve {

class HttpError : public Error {
 public:
  // type, code: of OpenAI's error shape, such as "invalid_request_error" and "model_not_found".
  HttpError(int http_status, const std::string& message, std::string error_type = "invalid_request_error",
            std::string error_code = {})
      : Error(message), status(http_status), type(std::move(error_type)), code(std::move(error_code)) {}

  int status;
  std::string type, code;
};

// 429: the queue has no room; the client should retry later.
class QueueFull : public HttpError {
 public:
  explicit QueueFull(size_t waiting)
      : HttpError(429, concat("the queue is full: ", waiting, " requests wait; retry later"),
                  "rate_limit_error", "queue_full") {}
};

// 504: the request's deadline passed before its result.
class DeadlineExceeded : public HttpError {
 public:
  DeadlineExceeded()
      : HttpError(504, "the deadline passed before the result", "timeout_error", "deadline_exceeded") {}
};

// The client disconnected; the response is discarded.
class Cancelled : public HttpError {
 public:
  Cancelled() : HttpError(499, "the client has left", "cancelled", "cancelled") {}
};

// 503: the model or the server is being shut down.
class ShuttingDown : public HttpError {
 public:
  ShuttingDown() : HttpError(503, "the server is shutting down", "server_error", "shutting_down") {}
};

// An error of this type, or std::bad_alloc if there is no memory for its message.
template <class Kind>
std::exception_ptr error_of() noexcept {
  try {
    throw Kind();
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace qkv::serve
