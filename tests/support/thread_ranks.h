#pragma once
// Ranks as threads of one process.

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "qkv/base/communicator.h"

namespace qkv::testing {

class ThreadRanks {
 public:
  explicit ThreadRanks(int count) : count_(count), mail_(static_cast<size_t>(count) * count) {}

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
  using Mail = std::deque<std::span<const std::byte>>;

  class Rank final : public Communicator {
   public:
    Rank(ThreadRanks& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return all_.count_; }
    void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) override {
      std::unique_lock lock(all_.mutex_);
      for (const auto& [to, bytes] : outgoing) all_.mail(rank_, to).push_back(bytes);
      all_.changed_.notify_all();
      for (const auto& [from, bytes] : incoming) {
        Mail& mail = all_.mail(from, rank_);
        wait(lock, [&mail] { return !mail.empty(); });
        if (mail.front().size() != bytes.size()) throw UsageError("exchange: the sizes of a message differ");
        std::ranges::copy(mail.front(), bytes.begin());
        mail.pop_front();
        all_.changed_.notify_all();
      }
      for (const auto& [to, bytes] : outgoing) {
        Mail& mail = all_.mail(rank_, to);
        wait(lock, [&mail] { return mail.empty(); });
      }
    }
    void fail(int /*exit_status*/) noexcept override {
      const std::lock_guard lock(all_.mutex_);
      all_.failed_ = true;
      all_.changed_.notify_all();
    }

   private:
    template <class Predicate>
    void wait(std::unique_lock<std::mutex>& lock, const Predicate& ready) {
      all_.changed_.wait(lock, [&] { return all_.failed_ || ready(); });
      if (!ready()) throw RankError("another rank has failed");
    }

    ThreadRanks& all_;
    int rank_;
  };

  Mail& mail(int from, int to) { return mail_[static_cast<size_t>(from) * count_ + to]; }

  int count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Mail> mail_;
  bool failed_ = false;
  std::exception_ptr error_;
};

}  // namespace qkv::testing
