#pragma once
// Ranks as threads of one process.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "qkv/base/communicator.h"

namespace qkv::testing {

class ThreadRanks {
 public:
  explicit ThreadRanks(int count) : count_(count), lanes_(static_cast<size_t>(count) * count) {}

  // Communicator::host() of each; empty: all are on one machine.
  std::function<std::string(int rank)> host_of;
  // Called by the thread of a rank before it begins to send.
  std::function<void(int rank)> on_send;

  // Calls body for each rank, on a thread each; rethrows the first error that is not a consequence of
  // another.
  void run(const std::function<void(Communicator&)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < count_; ++rank) {
      threads.emplace_back([this, rank, &body] {
        Rank own(*this, rank);
        try {
          body(own);
        } catch (const RankError&) {
          own.fail(1);
        } catch (...) {
          own.fail(1);
          const std::lock_guard lock(mutex_);
          if (!error_) error_ = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
    if (failed_) throw RankError("a rank has failed");
  }

 private:
  class Rank;
  struct Messages final : Communicator::Transfer {
    explicit Messages(ThreadRanks& ranks) : all(ranks) {}
    ~Messages() override {
      std::unique_lock lock(all.mutex_);
      all.changed_.wait(lock, [this] { return all.failed_ || left == 0; });
      for (Lane& lane : all.lanes_) {
        std::erase_if(lane.sent, [this](const auto& one) { return one.of == this; });
        std::erase_if(lane.wanted, [this](const auto& one) { return one.of == this; });
      }
    }
    void wait() override {
      std::unique_lock lock(all.mutex_);
      all.changed_.wait(lock, [this] { return all.failed_ || left == 0; });
      if (left > 0) throw RankError("another rank has failed");
    }

    bool done() override {
      const std::lock_guard lock(all.mutex_);
      return left == 0;
    }
    std::chrono::steady_clock::time_point ended() const override {
      const std::lock_guard lock(all.mutex_);
      return last;
    }
    void end_one() {
      --left;
      last = std::chrono::steady_clock::now();
    }

    ThreadRanks& all;
    int left = 0;
    std::chrono::steady_clock::time_point last;
  };

  // From one rank to another: messages that were sent or are wanted, by their order.
  struct Lane {
    template <class Byte>
    struct End {
      std::span<Byte> bytes;
      Messages* of;
    };
    std::deque<End<const std::byte>> sent;
    std::deque<End<std::byte>> wanted;

    void deliver() {
      for (; !sent.empty() && !wanted.empty(); sent.pop_front(), wanted.pop_front()) {
        if (sent.front().bytes.size() != wanted.front().bytes.size())
          throw UsageError("exchange: the sizes of a message differ");
        std::ranges::copy(sent.front().bytes, wanted.front().bytes.begin());
        sent.front().of->end_one();
        wanted.front().of->end_one();
      }
    }
  };

  class Rank final : public Communicator {
   public:
    Rank(ThreadRanks& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return all_.count_; }
    std::string host(int rank) const override { return all_.host_of ? all_.host_of(rank) : std::string(); }
    std::unique_ptr<Transfer> start(std::span<const Outgoing> outgoing,
                                    std::span<const Incoming> incoming) override {
      if (!outgoing.empty() && all_.on_send) all_.on_send(rank_);
      auto made = std::make_unique<Messages>(all_);
      const std::lock_guard lock(all_.mutex_);
      made->left = static_cast<int>(outgoing.size() + incoming.size());
      try {
        for (const auto& [from, bytes] : incoming) {
          all_.lane(from, rank_).wanted.push_back({bytes, made.get()});
          all_.lane(from, rank_).deliver();
        }
        for (const auto& [to, bytes] : outgoing) {
          traffic_.bytes_sent += std::ssize(bytes);
          all_.lane(rank_, to).sent.push_back({bytes, made.get()});
          all_.lane(rank_, to).deliver();
        }
      } catch (const UsageError&) {
        all_.failed_ = true;
        all_.changed_.notify_all();
        throw;
      }
      all_.changed_.notify_all();
      return made;
    }
    Traffic traffic() const override { return traffic_; }
    void fail(int /*exit_status*/) noexcept override {
      const std::lock_guard lock(all_.mutex_);
      all_.failed_ = true;
      all_.changed_.notify_all();
    }

   private:
    ThreadRanks& all_;
    int rank_;
    Traffic traffic_;
  };

  Lane& lane(int from, int to) { return lanes_[static_cast<size_t>(from) * count_ + to]; }

  int count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Lane> lanes_;
  bool failed_ = false;
  std::exception_ptr error_;
};

}  // namespace qkv::testing
