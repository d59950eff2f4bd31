// The life of a connection: time-outs, refusals, its end.

#include "qkv/serve/http/connection.h"

#include <new>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/serve/http/connection_reply.h"

namespace qkv::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

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
