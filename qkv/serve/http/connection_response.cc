// How a connection writes responses.

#include <array>
#include <ctime>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/json.h"
#include "qkv/serve/http/connection.h"
#include "qkv/serve/http/connection_reply.h"

namespace qkv::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

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

}  // namespace qkv::serve
