#pragma once
// One connection of a client: reads requests, hands them to the handler, and writes their answers in order.

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "qkv/serve/http/core.h"

namespace qkv::serve {

constexpr std::string_view kOutOfMemory = "out of memory; retry later, or with less";

// The state of an answer that a Reply and its connection share.
struct ReplyState {
  std::mutex mutex;
  bool handled = false;  // a handler has the request; guarded, as are the next two
  bool answered = false, ended = false, closed = false;
  std::function<void()> on_closed;
  std::atomic<int64_t> queued_bytes = 0;  // to be written, frames included
  // Memory to tell the connection that there is none for the answer.
  std::atomic<bool> last_resort_used = false;
  alignas(std::max_align_t) std::array<std::byte, 256> last_resort;
};

// All member functions run on the network thread, and throw only if memory runs out; out_of_memory() follows
// then. Reading never pauses while a request is being answered, until 64 KiB wait, so that a client that
// leaves is noticed at once.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(HttpCoreHandle core, std::string peer);
  virtual ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  virtual void start() = 0;
  // Answers 503 to a client that is one too many.
  void refuse_all();
  // The server is stopping: closes now if there is no request, refuses one that has not arrived completely,
  // and closes after the answer of one being answered.
  void drain();
  // Closes at once; a request being answered is told that its client has left.
  void close() noexcept;
  // Answers 503 unless an answer has begun, which closes.
  void out_of_memory() noexcept;
  void out_of_memory(const std::shared_ptr<ReplyState>& state) noexcept {
    if (state == state_) out_of_memory();
  }
  // Runs a step of the connection.
  template <class Step>
  void guarded(const Step& step) noexcept {
    try {
      step();
    } catch (...) {
      out_of_memory();
    }
  }

  // Answers of the request whose state this is; others are ignored.
  void respond(const std::shared_ptr<ReplyState>& state, const HttpResponse& response, bool whole);
  void append(const std::shared_ptr<ReplyState>& state, std::string_view data);
  void finish(const std::shared_ptr<ReplyState>& state);
  void call_at(const std::shared_ptr<ReplyState>& state, std::chrono::steady_clock::time_point time,
               std::function<void()> callback);

 protected:
  using Bytes = boost::asio::mutable_buffer;
  using Transferred = std::function<void(boost::system::error_code, size_t)>;

  // Of the socket, plain or TLS.
  virtual void read_some(Bytes into, Transferred done) = 0;
  virtual void write_some(boost::asio::const_buffer from, Transferred done) = 0;
  virtual void shutdown_send() = 0;
  virtual void close_socket() = 0;

  // Begins to read requests, once the socket is ready for them.
  void read();
  void wait_at_most(std::chrono::milliseconds time);  // for what the client is to do next

  HttpCoreHandle core_;

 private:
  static constexpr std::chrono::milliseconds kLinger{2'000};  // after the last answer

  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class Phase {
    idle,       // no byte of a request yet
    header,     // reading
    body,       // reading
    answering,  // a handler has the request
    lingering,  // answered for the last time; reads on so that the client gets the answer
    closed,
  };

  void timed_out();
  void next_request();
  void linger();
  void end_answer() noexcept;
  // Requests (connection_request.cc).
  void take_bytes();
  bool take_header();
  bool has_bare_line_feed() const;
  bool within_limits(bool stalled);
  bool within_pending_bytes();
  bool is_arriving() const { return phase_ == Phase::header || phase_ == Phase::body; }
  void dispatch();
  void wait_for_handler(std::chrono::steady_clock::time_point deadline);
  // Responses (connection_response.cc).
  void refuse(int status, const std::string& message, bool count = true);
  std::string head_of(const HttpResponse& response, bool whole) const;
  void write(std::string data);
  void write_more();
  void written();

  std::string peer_;
  Phase phase_ = Phase::idle;
  boost::beast::flat_buffer buffer_;
  bool reading_ = false;
  bool waits_idle_ = false;  // the idle time-out runs
  std::optional<Parser> parser_;
  bool header_taken_ = false;
  size_t wire_bytes_ = 0;  // of the body, as received
  PendingBytes pending_;   // of the request that arrives
  HttpRequest request_;    // its header; fields after a chunked body (trailers) are not taken
  bool keep_alive_ = true, is_head_ = false, is_http_1_0_ = false;  // of the request being answered
  std::shared_ptr<ReplyState> state_;                               // of the request being answered
  bool chunked_ = false, responded_ = false, answer_complete_ = false;
  std::deque<std::string> out_;  // to be written
  size_t out_offset_ = 0;        // written bytes of the first
  bool writing_ = false;
  size_t lingered_bytes_ = 0;
  boost::asio::steady_timer read_timer_, write_timer_, answer_timer_;
};

}  // namespace qkv::serve
