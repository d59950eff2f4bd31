#pragma once
// A queue that is fair to clients: first come, first served within a client, round robin between clients.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace qkv::serve {

using Clock = std::chrono::steady_clock;

// Whether a queue's limit may refuse a job: not the later jobs of a call that has begun.
enum class QueueLimit : uint8_t { counts, ignored };

// Not thread-safe: its worker locks. Only push() allocates, and changes nothing if memory runs out.
template <class Job>
class FairQueue {
 public:
  struct Entry {
    uint64_t id = 0;
    std::string client;
    Clock::time_point deadline = Clock::time_point::max();
    Job job;
  };
  using Entries = std::list<Entry>;

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
    Entries one;
    one.push_back(std::move(entry));
    push(one);
  }
  // All entries, which are of one client, or none.
  void push(Entries& entries) {
    if (entries.empty()) return;
    std::list<std::string> turn{entries.front().client};
    Entries& own = of_client_[turn.front()];
    if (own.empty()) turns_.splice(turns_.end(), turn);
    size_ += entries.size();
    own.splice(own.end(), entries);
  }

  // The next entry: the oldest of the client whose turn it is, among those with may(client).
  template <class May>
  std::optional<Entry> pop(const May& may) {
    const auto turn = std::ranges::find_if(turns_, may);
    if (turn == turns_.end()) return std::nullopt;
    const auto own = of_client_.find(*turn);
    std::optional<Entry> entry(std::move(own->second.front()));
    own->second.pop_front();
    --size_;
    if (own->second.empty()) {
      of_client_.erase(own);
      turns_.erase(turn);
    } else {
      turns_.splice(turns_.end(), turns_, turn);
    }
    return entry;
  }
  std::optional<Entry> pop() {
    return pop([](const std::string& /*client*/) { return true; });
  }

  // Removes the entries that match(entry), in order of their arrival by client.
  template <class Match>
  Entries remove_if(const Match& match) {
    Entries removed;
    for (auto own = of_client_.begin(); own != of_client_.end();) {
      Entries& entries = own->second;
      for (auto one = entries.begin(); one != entries.end();) {
        const auto next = std::next(one);
        if (match(*one)) removed.splice(removed.end(), entries, one);
        one = next;
      }
      if (entries.empty()) {
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
  std::unordered_map<std::string, Entries> of_client_;
  std::list<std::string> turns_;  // each client with entries once
  size_t size_ = 0;
};

}  // namespace qkv::serve
