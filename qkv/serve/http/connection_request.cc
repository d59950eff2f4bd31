// How a connection reads requests and passes them to handlers.

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <iterator>
#include <new>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/json.h"
#include "qkv/serve/http/connection.h"
#include "qkv/serve/http/connection_reply.h"

namespace qkv::serve {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

constexpr size_t kReadBytes = 4096;
constexpr size_t kReadAhead = 64 << 10;    // bytes of further requests, while one is answered
constexpr size_t kLingerBytes = 64 << 20;  // read and dropped after the last answer, for kLinger at most

}  // namespace

void Connection::read() {
  // Line breaks before a request do not extend the wait for it.
  if (phase_ == Phase::idle && !reading_ && !std::exchange(waits_idle_, true)) {
    wait_at_most(buffer_.size() > 0 ? core_->options.header_timeout : core_->options.idle_timeout);
    if (buffer_.size() > 0) return take_bytes();
  }
  if (reading_ || phase_ == Phase::closed || (phase_ == Phase::answering && buffer_.size() >= kReadAhead))
    return;
  reading_ = true;
  read_some(buffer_.prepare(kReadBytes), [self = shared_from_this()](const error_code& error, size_t bytes) {
    self->reading_ = false;
    if (self->phase_ == Phase::closed) return;
    if (error) return self->close();
    self->buffer_.commit(bytes);
    self->guarded([&] { self->take_bytes(); });
  });
}

// Uses the bytes that have been read, and reads on.
void Connection::take_bytes() {
  if (phase_ == Phase::lingering) {
    lingered_bytes_ += buffer_.size();
    buffer_.consume(buffer_.size());
    if (lingered_bytes_ > kLingerBytes) return close();
  }
  if (phase_ == Phase::idle && buffer_.size() > 0) {
    // A line break before a request is ignored (RFC 9112, section 2.2).
    while (buffer_.size() > 0) {
      const char first = *static_cast<const char*>(buffer_.data().data());
      if (first != '\r' && first != '\n') break;
      buffer_.consume(1);
    }
    if (buffer_.size() > 0) {
      phase_ = Phase::header;
      waits_idle_ = false;
      parser_.emplace();
      parser_->header_limit(static_cast<uint32_t>(core_->options.header_bytes));
      parser_->body_limit(static_cast<uint64_t>(core_->options.body_bytes));
      header_taken_ = false;
      wire_bytes_ = 0;
      wait_at_most(core_->options.header_timeout);
    }
  }
  while (is_arriving() && buffer_.size() > 0) {
    error_code error;
    const size_t used = parser_->put(buffer_.data(), error);
    if (error && error != http::error::need_more && phase_ == Phase::header && has_bare_line_feed())
      return refuse(400, "header: expected lines that end in CR LF, found one that ends in LF");
    buffer_.consume(used);
    if (parser_->is_header_done() && !header_taken_) {
      if (!take_header()) return;
    } else if (phase_ == Phase::body) {
      wire_bytes_ += used;
    }
    if (error == http::error::body_limit) {
      return refuse(413, concat("body: expected at most ", core_->options.body_bytes, " bytes, found more"));
    }
    if (error == http::error::header_limit) {
      return refuse(431,
                    concat("header: expected at most ", core_->options.header_bytes, " bytes, found more"));
    }
    if (error == http::error::bad_version)
      return refuse(505, "expected HTTP/1.1 or HTTP/1.0, found another version");
    if (error && error != http::error::need_more)
      return refuse(400, concat("malformed request: ", error.message()));
    const bool stalled = used == 0 || error == http::error::need_more;
    if (!within_limits(stalled) || !within_pending_bytes()) return;
    if (parser_->is_done()) {
      dispatch();
      break;
    }
    if (stalled) break;
  }
  read();
}

// A line of the header that ends in LF without CR (RFC 9112, section 2.2).
bool Connection::has_bare_line_feed() const {
  const std::string_view text(static_cast<const char*>(buffer_.data().data()), buffer_.size());
  for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) {
    if (at == 0 || text[at - 1] != '\r') return true;
    if (text.substr(at + 1).starts_with("\r\n")) return false;  // the end of the header
  }
  return false;
}

// Limits the bytes that the parser waits to complete (`stalled`), and those of a chunked body that are not
// its content: sizes, extensions and trailers. Small chunks are allowed. False: the request has been refused.
bool Connection::within_limits(bool stalled) {
  const auto most = static_cast<size_t>(core_->options.header_bytes);
  const size_t body = parser_->get().body().size();
  if ((!stalled || parser_->is_done() || buffer_.size() <= most) && wire_bytes_ <= most + 17 * body)
    return true;
  refuse(431, phase_ == Phase::header ? concat("header: expected at most ", most, " bytes, found more")
                                      : concat("chunked body: expected at most ", most,
                                               " bytes of extensions and trailers, found more"));
  return false;
}

// Counts the bytes of the request, and refuses the largest requests if all connections together have more
// than allowed. False: this one has been refused.
bool Connection::within_pending_bytes() {
  pending_.set(static_cast<int64_t>(parser_->get().body().capacity() + buffer_.capacity()));
  while (core_->pending_bytes > core_->options.pending_bytes && is_arriving()) {
    Connection* largest = this;
    for (Connection* one : core_->connections) {
      if (one->is_arriving() && one->pending_.get() > largest->pending_.get()) largest = one;
    }
    largest->guarded([&] {
      largest->refuse(
          503, concat("the server has its limit of ", core_->options.pending_bytes, " bytes of requests"));
    });
  }
  return is_arriving();
}

// Checks a complete header. False: the request has been refused.
bool Connection::take_header() {
  header_taken_ = true;
  parser_->eager(true);  // the body was left, as the fields after it would join those of the header
  const auto& request = parser_->get();
  keep_alive_ = request.keep_alive();
  is_head_ = request.method() == http::verb::head;
  is_http_1_0_ = request.version() == 10;
  const auto refused = [this](int status, const std::string& message) {
    refuse(status, message);
    return false;
  };
  if (request.version() != 10 && request.version() != 11)
    return refused(505, "expected HTTP/1.1 or HTTP/1.0, found another version");
  if (request.count(http::field::host) > 1 || (!is_http_1_0_ && request.count(http::field::host) == 0)) {
    return refused(400, concat("expected one Host field, found ", request.count(http::field::host)));
  }
  const auto fields = std::distance(request.begin(), request.end());
  if (fields > core_->options.header_fields) {
    return refused(
        431, concat("header: expected at most ", core_->options.header_fields, " fields, found ", fields));
  }
  if (request.count(http::field::transfer_encoding) > 0) {
    if (is_http_1_0_) keep_alive_ = false;  // RFC 9112, section 6.1
    if (request.count(http::field::content_length) > 0)
      return refused(400, "expected Content-Length or Transfer-Encoding, found both");
    if (!boost::beast::iequals(request[http::field::transfer_encoding], "chunked"))
      return refused(501, "Transfer-Encoding: expected chunked, found another coding");
  }
  const std::string_view asked(request.target().data(), request.target().size());
  // "*": the server as a whole (RFC 9112, section 3.2.4).
  const bool whole = asked == "*" && request.method() == http::verb::options;
  std::optional<Target> target = whole ? Target{"*", {}} : parse_target(asked);
  if (!target) return refused(400, "expected a path of printable characters without '..', found another");
  request_ = {};
  request_.method = std::string(request.method_string());
  request_.path = std::move(target->path);
  request_.query = std::move(target->query);
  request_.peer = peer_;
  for (const auto& field : request) {
    std::string& value = request_.headers[std::string(field.name_string())];
    if (!value.empty()) value += ", ";
    value += std::string(field.value());
  }
  phase_ = Phase::body;
  wait_at_most(core_->options.body_timeout);
  // HTTP/1.0 has no interim responses (RFC 9110, section 10.1.1).
  if (!parser_->is_done() && !is_http_1_0_ &&
      boost::beast::iequals(request[http::field::expect], "100-continue"))
    write("HTTP/1.1 100 Continue\r\n\r\n");
  return true;
}

void Connection::dispatch() {
  state_ = std::make_shared<ReplyState>();
  phase_ = Phase::answering;
  read_timer_.cancel();
  ++core_->requests;
  core_->add_active(1);
  answer_complete_ = responded_ = false;
  for (const std::string& text : out_) state_->queued_bytes += std::ssize(text);  // "100 Continue"
  state_->queued_bytes -= static_cast<int64_t>(out_offset_);
  const auto pending = std::make_shared<PendingBytes>(core_);
  const auto request = std::make_shared<HttpRequest>(std::exchange(request_, {}));
  request->body = std::move(parser_->get().body());
  request->arrived = std::chrono::steady_clock::now();
  request->pending = pending;
  parser_.reset();
  pending_.set(0);
  pending->set(static_cast<int64_t>(request->body.capacity()));
  const HttpOptions& options = core_->options;
  if (options.deadline_of) wait_for_handler(options.deadline_of(*request));
  HandlerThreads& threads = core_->threads_for(request->path);
  const std::string client = options.client_of ? options.client_of(*request) : request->peer;
  threads.add(client, [core = core_, request, reply = reply_through(core_, weak_from_this(), state_),
                       state = state_] {
    {
      const std::lock_guard lock(state->mutex);
      if (state->closed) return;  // its client has left, or its deadline has passed
      state->handled = true;
    }
    const auto fail = [&](int status, std::string_view message) {
      reply->send({.status = status,
                   .body = concat(R"({"error":{"message":)", quoted_json(message),
                                  R"(,"type":"server_error","code":null}})")});
    };
    try {
      try {
        core->handler(std::move(*request), reply);
      } catch (const std::bad_alloc&) {
        fail(503, kOutOfMemory);
      } catch (const std::exception& error) {
        fail(500, error.what());
      }
    } catch (...) {  // the reply's end tells the connection
    }
  });
}

// Answers 504 unless a handler has the request by then.
void Connection::wait_for_handler(std::chrono::steady_clock::time_point deadline) {
  answer_timer_.expires_at(deadline);
  answer_timer_.async_wait([weak = weak_from_this(), state = state_](const error_code& error) {
    const auto self = weak.lock();
    if (error || !self || self->state_ != state) return;
    {
      const std::lock_guard lock(state->mutex);
      if (state->handled) return;
    }
    self->guarded([&] {
      self->end_answer();
      self->refuse(504, "the deadline passed before the request was handled", false);
    });
  });
}

}  // namespace qkv::serve
