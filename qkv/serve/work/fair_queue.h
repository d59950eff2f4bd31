#pragma once
// A queue that is fair to clients: first come, first served within a client, round robin between clients.

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace qkv::serve {

using Clock = std::chrono::steady_clock;

// Not thread-safe: its worker locks.
template <class Job>
class FairQueue {
 public:
  struct Entry {
    uint64_t id = 0;
    std::string client;
    Clock::time_point deadline = Clock::time_point::max();
    Job job;
  };

  // Whether a client may add that many entries to a queue of at most `limit`. A client with less than its
  // share of a full queue may, so that one client cannot lock the others out. More than the whole queue is
  // taken when nothing waits, as it could never be otherwise.
  bool admits(const std::string& client, size_t entries, size_t limit) const {
    if (empty() || size_ + entries <= limit) return true;
    const auto own = of_client_.find(client);
    const size_t waiting = own == of_client_.end() ? 0 : own->second.size();
    const size_t clients = of_client_.size() + (waiting == 0 ? 1 : 0);
    return waiting + entries <= limit / clients;
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  void push(Entry entry) {
    std::deque<Entry>& own = of_client_[entry.client];
    if (own.empty()) turns_.push_back(entry.client);
    own.push_back(std::move(entry));
    ++size_;
  }

  // The next entry: the oldest of the client whose turn it is.
  std::optional<Entry> pop() {
    if (empty()) return std::nullopt;
    const std::string client = std::move(turns_.front());
    turns_.pop_front();
    const auto own = of_client_.find(client);
    Entry entry = std::move(own->second.front());
    own->second.pop_front();
    --size_;
    if (own->second.empty()) {
      of_client_.erase(own);
    } else {
      turns_.push_back(client);
    }
    return entry;
  }

  // Removes the entries that match(entry), in order of their arrival by client.
  template <class Match>
  std::vector<Entry> remove_if(const Match& match) {
    std::vector<Entry> removed;
    for (auto own = of_client_.begin(); own != of_client_.end();) {
      std::deque<Entry> kept;
      for (Entry& entry : own->second) {
        if (match(entry)) {
          removed.push_back(std::move(entry));
        } else {
          kept.push_back(std::move(entry));
        }
      }
      own->second = std::move(kept);
      if (own->second.empty()) {
        std::erase(turns_, own->first);
        own = of_client_.erase(own);
      } else {
        ++own;
      }
    }
    size_ -= removed.size();
    return removed;
  }

 private:
  std::unordered_map<std::string, std::deque<Entry>> of_client_;  // no client without entries
  std::deque<std::string> turns_;                                 // each client of of_client_ once
  size_t size_ = 0;
};

}  // namespace qkv::serve
