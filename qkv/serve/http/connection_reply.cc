#include "qkv/serve/http/connection_reply.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

namespace qkv::serve {
namespace {

// Allocates ReplyState::last_resort, once.
template <class T>
struct LastResortMemory {
  using value_type = T;
  explicit LastResortMemory(ReplyState* reply_state) : state(reply_state) {}
  template <class Other>
  explicit LastResortMemory(const LastResortMemory<Other>& other) : state(other.state) {}
  T* allocate(size_t count) {
    if (count * sizeof(T) > state->last_resort.size() || state->last_resort_used.exchange(true))
      throw std::bad_alloc();
    return reinterpret_cast<T*>(state->last_resort.data());
  }
  void deallocate(T* /*memory*/, size_t /*count*/) {}
  bool operator==(const LastResortMemory& other) const { return state == other.state; }

  ReplyState* state;
};

// Runs on the network thread when there was no memory to pass an answer on.
struct OutOfMemory {
  using allocator_type = LastResortMemory<void>;
  allocator_type get_allocator() const noexcept { return allocator_type(state.get()); }
  void operator()() const {
    if (const auto open = connection.lock()) open->out_of_memory(state);
  }

  std::weak_ptr<Connection> connection;
  std::shared_ptr<ReplyState> state;
};

class ConnectionReply : public Reply {
 public:
  ConnectionReply(HttpCoreHandle core, std::weak_ptr<Connection> connection,
                  std::shared_ptr<ReplyState> state)
      : core_(std::move(core)), connection_(std::move(connection)), state_(std::move(state)) {}

  ~ConnectionReply() override {
    bool answered = false, ended = false;
    {
      const std::lock_guard lock(state_->mutex);
      answered = state_->answered;
      ended = state_->ended;
    }
    if (!answered) {
      try {
        ConnectionReply::send(
            {.status = 500,
             .body = R"({"error":{"message":"no answer","type":"server_error","code":null}})"});
      } catch (...) {
        out_of_memory();
      }
    } else if (!ended) {
      on_connection([](Connection& connection) { connection.close(); });
    }
  }

  bool send(HttpResponse response) override { return answer(std::move(response), true); }
  bool begin(HttpResponse response) override { return answer(std::move(response), false); }

  bool write(std::string data) override {
    {
      const std::lock_guard lock(state_->mutex);
      if (!state_->answered || state_->ended || state_->closed) return false;
    }
    const auto size = static_cast<int64_t>(data.size());
    const int64_t queued = state_->queued_bytes += size;
    if (queued > core_->options.stream_buffer_bytes) {
      on_connection([](Connection& connection) { connection.close(); });
      return false;
    }
    on_connection(
        [state = state_, data = std::move(data)](Connection& connection) { connection.append(state, data); });
    return true;
  }

  void end(std::optional<int> /*failed*/) override {
    {
      const std::lock_guard lock(state_->mutex);
      if (!state_->answered || state_->ended) return;
      state_->ended = true;
    }
    on_connection([state = state_](Connection& connection) { connection.finish(state); });
  }

  bool closed() const override {
    const std::lock_guard lock(state_->mutex);
    return state_->closed;
  }

  void on_closed(std::function<void()> callback) override {
    {
      const std::lock_guard lock(state_->mutex);
      if (!state_->closed) {
        if (!state_->ended) state_->on_closed = std::move(callback);
        return;
      }
    }
    if (callback) callback();
  }

  void at(std::chrono::steady_clock::time_point time, std::function<void()> callback) override {
    on_connection([state = state_, time, callback = std::move(callback)](Connection& connection) {
      connection.call_at(state, time, callback);
    });
  }

 private:
  bool answer(HttpResponse response, bool whole) {
    std::function<void()> dropped;
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->answered || state_->closed) return false;
      state_->answered = true;
      state_->ended = whole;
      if (whole) dropped.swap(state_->on_closed);
    }
    on_connection([state = state_, response = std::move(response), whole](Connection& connection) {
      connection.respond(state, response, whole);
    });
    return true;
  }

  template <class Action>
  void on_connection(Action action) noexcept {
    try {
      core_->post([connection = connection_, action = std::move(action)] {
        if (const auto open = connection.lock()) open->guarded([&] { action(*open); });
      });
    } catch (...) {
      out_of_memory();
    }
  }

  void out_of_memory() noexcept {
    try {
      core_->post(OutOfMemory{connection_, state_});
    } catch (...) {  // the second time
    }
  }

  HttpCoreHandle core_;
  std::weak_ptr<Connection> connection_;
  std::shared_ptr<ReplyState> state_;
};

}  // namespace

ReplyHandle reply_through(HttpCoreHandle core, std::weak_ptr<Connection> connection,
                          std::shared_ptr<ReplyState> state) {
  return std::make_shared<ConnectionReply>(std::move(core), std::move(connection), std::move(state));
}

}  // namespace qkv::serve
