#include "qkv/serve/http/connection.h"

#include <algorithm>
#include <array>
#include <boost/beast/core/string.hpp>
#include <ctime>
#include <iterator>
#include <new>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/json.h"
#include "qkv/serve/http/connection_reply.h"

namespace qkv::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr size_t kReadBytes = 4096;
constexpr size_t kReadAhead = 64 << 10;    // bytes of further requests, while one is answered
constexpr size_t kLingerBytes = 64 << 20;  // read and dropped after the last answer, for kLinger at most
constexpr std::chrono::milliseconds kLinger{2'000};

// Of a Date field (RFC 9110, section 5.6.7).
std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 64> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text.data(), length};
}

bool is_safe_field(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

}  // namespace

Connection::Connection(HttpCoreHandle core, std::string peer)
    : core_(std::move(core)),
      peer_(std::move(peer)),
      pending_(core_),
      read_timer_(core_->io),
      write_timer_(core_->io),
      answer_timer_(core_->io) {
  core_->connections.insert(this);
  ++core_->open;
}

Connection::~Connection() {
  core_->connections.erase(this);
  --core_->open;
}

void Connection::wait_at_most(std::chrono::milliseconds time) {
  read_timer_.expires_after(time);
  read_timer_.async_wait([weak = weak_from_this()](const error_code& error) {
    const auto self = weak.lock();
    // A timer that was set again while this call waited in the queue has not expired.
    if (error || !self || self->read_timer_.expiry() > std::chrono::steady_clock::now()) return;
    self->guarded([&] { self->timed_out(); });
  });
}

void Connection::timed_out() {
  switch (phase_) {
    case Phase::header:
      return refuse(408, "expected the request's header in time, found it incomplete");
    case Phase::body:
      return refuse(408, "expected the request's body in time, found it incomplete");
    case Phase::answering:
    case Phase::closed:
      return;
    case Phase::idle:
    case Phase::lingering:
      return close();
  }
}

void Connection::refuse_all() {
  refuse(503, concat("the server has its limit of ", core_->options.connections, " connections"), false);
  read();
}

void Connection::drain() {
  keep_alive_ = false;
  if (phase_ == Phase::header || phase_ == Phase::body) return refuse(503, "the server is shutting down");
  if (phase_ == Phase::idle) close();
}

// Takes its connection from the request that is being answered, if there is one.
void Connection::end_answer() noexcept {
  if (!state_) return;
  std::function<void()> callback;
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
    callback.swap(state_->on_closed);
  }
  state_.reset();
  answer_timer_.cancel();
  core_->add_active(-1);
  try {
    if (callback) callback();
  } catch (...) {  // out of memory: what the request computes is dropped at its end
  }
}

void Connection::close() noexcept {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  read_timer_.cancel();
  write_timer_.cancel();
  close_socket();
  parser_.reset();
  pending_.set(0);
  end_answer();
}

void Connection::out_of_memory() noexcept {
  const bool unanswered = is_arriving() || (phase_ == Phase::answering && !responded_);
  end_answer();
  if (!unanswered) return close();
  try {
    refuse(503, std::string(kOutOfMemory));
  } catch (...) {
    close();
  }
}

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

// Answers without a handler, for the last time on this connection.
void Connection::refuse(int status, const std::string& message, bool count) {
  if (count) ++core_->malformed;
  if (core_->options.on_refused) core_->options.on_refused(peer_, status);
  keep_alive_ = false;
  phase_ = Phase::lingering;
  parser_.reset();
  pending_.set(0);
  const char* const type = status == 503   ? "server_error"
                           : status == 504 ? "timeout_error"
                                           : "invalid_request_error";
  HttpResponse response{.status = status,
                        .body = concat(R"({"error":{"message":)", quoted_json(message), R"(,"type":")", type,
                                       R"(","code":null}})"),
                        .headers = core_->options.refusal_headers};
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  answer_complete_ = true;
  write(head_of(response, true) + (is_head_ ? "" : response.body));
  wait_at_most(kLinger);
  read();
}

std::string Connection::head_of(const HttpResponse& response, bool whole) const {
  std::string head = concat(is_http_1_0_ ? "HTTP/1.0 " : "HTTP/1.1 ", response.status, " ",
                            reason_phrase(response.status), "\r\nServer: qkv\r\nDate: ", http_date(), "\r\n");
  if (response.status != 204) {
    if (is_safe_field(response.content_type)) head += concat("Content-Type: ", response.content_type, "\r\n");
    if (whole) head += concat("Content-Length: ", response.body.size(), "\r\n");
  }
  for (const auto& [name, value] : response.headers) {
    // A value with a line break would be another field.
    if (is_safe_field(name) && is_safe_field(value)) head += concat(name, ": ", value, "\r\n");
  }
  if (!whole && !is_http_1_0_) head += "Transfer-Encoding: chunked\r\n";
  if (!keep_alive_) {
    head += "Connection: close\r\n";
  } else if (is_http_1_0_) {
    head += "Connection: keep-alive\r\n";
  }
  return head + "\r\n";
}

void Connection::respond(const std::shared_ptr<ReplyState>& state, const HttpResponse& response, bool whole) {
  if (state != state_ || phase_ != Phase::answering) return;
  if (core_->draining) keep_alive_ = false;
  if (!whole && is_http_1_0_) keep_alive_ = false;
  chunked_ = !whole && !is_http_1_0_;
  std::string text = head_of(response, whole);
  const bool bodiless = is_head_ || response.status == 204;
  if (whole && !bodiless) text += response.body;
  responded_ = true;
  if (whole) answer_complete_ = true;
  write(std::move(text));
  if (!whole && !response.body.empty()) {
    state_->queued_bytes += std::ssize(response.body);
    append(state, response.body);
  }
}

// `data` is counted as queued already; write() counts it again, with its frame.

void Connection::append(const std::shared_ptr<ReplyState>& state, std::string_view data) {
  if (state != state_ || phase_ != Phase::answering || data.empty()) return;
  state_->queued_bytes -= std::ssize(data);
  if (is_head_) return;
  if (!chunked_) return write(std::string(data));
  std::array<char, 32> size{};
  const int digits = std::snprintf(size.data(), size.size(), "%zx\r\n", data.size());
  std::string chunk(size.data(), static_cast<size_t>(digits));
  chunk.append(data).append("\r\n");
  write(std::move(chunk));
}

void Connection::call_at(const std::shared_ptr<ReplyState>& state, std::chrono::steady_clock::time_point time,
                         std::function<void()> callback) {
  if (state != state_ || phase_ != Phase::answering) return;
  answer_timer_.expires_at(time);
  answer_timer_.async_wait(
      [weak = weak_from_this(), state, call = std::move(callback)](const error_code& error) {
        const auto self = weak.lock();
        if (!error && self && self->state_ == state && !self->answer_complete_) self->guarded(call);
      });
}

void Connection::finish(const std::shared_ptr<ReplyState>& state) {
  if (state != state_ || phase_ != Phase::answering) return;
  answer_complete_ = true;
  write(chunked_ && !is_head_ ? "0\r\n\r\n" : "");
}

void Connection::write(std::string data) {
  if (state_) state_->queued_bytes += std::ssize(data);
  if (!data.empty()) out_.push_back(std::move(data));
  write_more();
}

void Connection::write_more() {
  if (writing_ || phase_ == Phase::closed) return;
  if (out_.empty()) return written();
  writing_ = true;
  write_timer_.expires_after(core_->options.write_timeout);
  write_timer_.async_wait([weak = weak_from_this()](const error_code& error) {
    const auto self = weak.lock();
    if (error || !self || self->write_timer_.expiry() > std::chrono::steady_clock::now()) return;
    self->close();
  });
  const std::string& front = out_.front();
  write_some(asio::buffer(front.data() + out_offset_, front.size() - out_offset_),
             [self = shared_from_this()](const error_code& error, size_t bytes) {
               self->writing_ = false;
               if (self->phase_ == Phase::closed) return;
               self->write_timer_.cancel();
               if (error) return self->close();
               self->guarded([&] {
                 self->out_offset_ += bytes;
                 if (self->state_) self->state_->queued_bytes -= static_cast<int64_t>(bytes);
                 if (self->out_offset_ == self->out_.front().size()) {
                   self->out_.pop_front();
                   self->out_offset_ = 0;
                 }
                 self->write_more();
               });
             });
}

// All output has been written.
void Connection::written() {
  if (!answer_complete_) return;
  if (phase_ == Phase::lingering) return linger();
  if (phase_ != Phase::answering) return;
  state_.reset();
  answer_timer_.cancel();
  core_->add_active(-1);
  phase_ = Phase::idle;
  answer_complete_ = false;
  if (keep_alive_ && !core_->draining) return next_request();
  phase_ = Phase::lingering;
  linger();
}

void Connection::next_request() {
  waits_idle_ = true;
  wait_at_most(core_->options.idle_timeout);
  if (buffer_.size() > 0) {
    // Post: pipelined requests would recurse.
    asio::post(core_->io, [self = shared_from_this()] {
      if (self->phase_ == Phase::idle) self->guarded([&] { self->take_bytes(); });
    });
    return;
  }
  read();
}

// Closing while bytes of the client are unread would make it lose the answer.
void Connection::linger() {
  shutdown_send();
  wait_at_most(kLinger);
  read();
}

}  // namespace qkv::serve
