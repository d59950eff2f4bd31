#include "qkv/text/training/pair_merges.h"

#include <algorithm>
#include <string_view>

#include "qkv/base/stop.h"
#include "qkv/base/string_index.h"

namespace qkv::text {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// A pair of adjacent symbols and its count, which becomes exact for a pair in the queue once the pair is at
// its top.
struct Pair {
  uint32_t first = 0, second = 0;
  int64_t count = 0;
  uint32_t places = kNone;  // a list of words in which it appeared since it was queued last
};

// All pairs seen so far, by their symbols. Open addressing.
class PairTable {
 public:
  PairTable() : slots_(size_t{1} << 16) {}

  // The index of a pair, which is added if it is new.
  uint32_t index_of(uint32_t first, uint32_t second) {
    const uint64_t key = (uint64_t{first} << 32) | second;
    size_t at = place_of(key);
    if (slots_[at].pair != kNone) return slots_[at].pair;
    if (2 * (pairs_.size() + 1) > slots_.size()) {
      grow();
      at = place_of(key);
    }
    const auto index = static_cast<uint32_t>(pairs_.size());
    pairs_.push_back({first, second});
    slots_[at] = {key, index};
    return index;
  }

  Pair& operator[](uint32_t index) { return pairs_[index]; }
  uint32_t size() const { return static_cast<uint32_t>(pairs_.size()); }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t pair = kNone;  // none: free
  };

  size_t place_of(uint64_t key) const {
    uint64_t at = key * 0x9E3779B97F4A7C15ull;
    at = (at ^ (at >> 32)) & (slots_.size() - 1);
    while (slots_[at].pair != kNone && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.pair != kNone) slots_[place_of(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two of slots, at most half full
  std::vector<Pair> pairs_;
};

// Lists of word numbers, which are reused.
class PlaceLists {
 public:
  uint32_t take() {
    if (free_.empty()) {
      lists_.emplace_back();
      return static_cast<uint32_t>(lists_.size() - 1);
    }
    const uint32_t list = free_.back();
    free_.pop_back();
    return list;
  }
  std::vector<uint32_t>& operator[](uint32_t list) { return lists_[list]; }
  void give_back(uint32_t list) {
    std::vector<uint32_t>().swap(lists_[list]);
    free_.push_back(list);
  }

 private:
  std::vector<std::vector<uint32_t>> lists_;
  std::vector<uint32_t> free_;
};

// The order and counts are those of PyPI's BpeTrainer, which gives the same vocabulary: an entry of the queue
// keeps the count of its insertion until it is at the top, and a merged pair keeps its count.
class Merger {
 public:
  Merger(SpelledWords words, std::vector<std::string>& tokens, const std::atomic<bool>* stop)
      : words_(std::move(words)), tokens_(tokens), stop_(stop) {
    for (size_t id = 0; id < tokens_.size(); ++id) ids_.set(tokens_[id], static_cast<int32_t>(id));
    count_pairs();
  }

  // The most frequent pair, removed from the queue; none if no pair occurs that often.
  struct Queued {
    int64_t count = 0;
    uint32_t first = 0, second = 0;
    uint32_t pair = kNone, places = kNone;
  };
  Queued take_most_frequent(int64_t least) {
    while (!queue_.empty()) {
      std::ranges::pop_heap(queue_, later);
      Queued& top = queue_.back();
      const int64_t count = pairs_[top.pair].count;
      if (top.count != count) {
        top.count = count;
        std::ranges::push_heap(queue_, later);
        continue;
      }
      if (count < std::max<int64_t>(least, 1)) break;
      Queued taken = top;
      queue_.pop_back();
      return taken;
    }
    return {};
  }

  void merge(const Queued& pair, const std::string& prefix) {
    const uint32_t merged = merged_token(pair, prefix);
    const std::vector<uint32_t> places = std::move(places_[pair.places]);
    places_.give_back(pair.places);
    touched_.clear();
    for (size_t i = 0; i < places.size(); ++i) {
      if (i % kPlacesPerLook == 0) throw_if_stopped(stop_);
      merge_in(places[i], pair.first, pair.second, merged);
    }
    for (const uint32_t index : touched_) queue(index);
  }

 private:
  static constexpr size_t kPlacesPerLook = 4096;

  static bool later(const Queued& a, const Queued& b) {
    if (a.count != b.count) return a.count < b.count;
    return a.first != b.first ? a.first > b.first : a.second > b.second;
  }

  void count_pairs() {
    begins_.reserve(words_.ends.size());
    lengths_.reserve(words_.ends.size());
    size_t begin = 0;
    for (size_t word = 0; word < words_.ends.size(); ++word) {
      if (word % kPlacesPerLook == 0) throw_if_stopped(stop_);
      const size_t end = words_.ends[word];
      begins_.push_back(begin);
      lengths_.push_back(end - begin);
      for (size_t i = begin; i + 1 < end; ++i) {
        change(words_.symbols[i], words_.symbols[i + 1], words_.counts[word], static_cast<uint32_t>(word));
      }
      begin = end;
    }
    for (const uint32_t index : touched_) queue(index);
  }

  // Adds to a pair's count in a word.
  void change(uint32_t first, uint32_t second, int64_t count, uint32_t word) {
    const uint32_t index = pairs_.index_of(first, second);
    Pair& pair = pairs_[index];
    pair.count += count;
    if (count < 0) return;
    if (pair.places == kNone) {
      pair.places = places_.take();
      touched_.push_back(index);
    }
    std::vector<uint32_t>& places = places_[pair.places];
    if (places.empty() || places.back() != word) places.push_back(word);
  }

  void queue(uint32_t index) {
    Pair& pair = pairs_[index];
    const uint32_t places = pair.places;
    pair.places = kNone;
    if (pair.count <= 0) return places_.give_back(places);
    queue_.push_back({pair.count, pair.first, pair.second, index, places});
    std::ranges::push_heap(queue_, later);
  }

  uint32_t merged_token(const Queued& pair, const std::string& prefix) {
    std::string_view second = tokens_[pair.second];
    if (!prefix.empty() && second.starts_with(prefix)) second.remove_prefix(prefix.size());
    std::string token = tokens_[pair.first];
    token += second;
    if (const int32_t known = ids_.find(token); known >= 0) return static_cast<uint32_t>(known);
    const auto id = static_cast<uint32_t>(tokens_.size());
    ids_.set(token, static_cast<int32_t>(id));
    tokens_.push_back(std::move(token));
    return id;
  }

  // Merges the pair in a word, from left to right, and counts the pairs that this removes and forms.
  void merge_in(uint32_t word, uint32_t first, uint32_t second, uint32_t merged) {
    uint32_t* const symbols = words_.symbols.data() + begins_[word];
    const size_t length = lengths_[word];
    const int64_t count = words_.counts[word];
    size_t kept = 0;
    for (size_t i = 0; i < length;) {
      if (i + 1 == length || symbols[i] != first || symbols[i + 1] != second) {
        symbols[kept++] = symbols[i++];
        continue;
      }
      if (kept > 0) {
        change(symbols[kept - 1], first, -count, word);
        change(symbols[kept - 1], merged, count, word);
      }
      i += 2;
      if (i < length) {
        change(second, symbols[i], -count, word);
        change(merged, symbols[i], count, word);
      }
      symbols[kept++] = merged;
    }
    lengths_[word] = kept;
  }

  SpelledWords words_;
  std::vector<size_t> begins_, lengths_;
  std::vector<std::string>& tokens_;
  const std::atomic<bool>* stop_;
  StringIndex ids_;
  PairTable pairs_;
  PlaceLists places_;
  std::vector<uint32_t> touched_;  // pairs with new places
  std::vector<Queued> queue_;      // a heap
};

// A pair may be merged twice, if it appears again because another pair gives the same token; it has the rank
// of its last merge.
MergedPairs last_of_each(const MergedPairs& merges) {
  PairTable seen;
  MergedPairs kept;
  for (auto merge = merges.rbegin(); merge != merges.rend(); ++merge) {
    const uint32_t before = seen.size();
    seen.index_of(merge->first, merge->second);
    if (seen.size() > before) kept.push_back(*merge);
  }
  std::ranges::reverse(kept);
  return kept;
}

}  // namespace

MergedPairs merge_pairs(SpelledWords words, std::vector<std::string>& tokens, const MergeOptions& options,
                        TokenizerProgress& progress, const TokenizerObserver& observer,
                        const std::atomic<bool>* stop) {
  constexpr size_t kMergesPerReport = 64;
  progress.stage = TokenizerProgress::Stage::merging;
  Merger merger(std::move(words), tokens, stop);
  MergedPairs merges;
  while (std::ssize(tokens) < options.vocab_size) {
    throw_if_stopped(stop);
    if (observer && merges.size() % kMergesPerReport == 0) {
      progress.tokens = std::ssize(tokens);
      progress.merges = std::ssize(merges);
      observer(progress);
    }
    const auto pair = merger.take_most_frequent(options.min_frequency);
    if (pair.pair == kNone) break;
    merges.emplace_back(pair.first, pair.second);
    merger.merge(pair, options.prefix);
  }
  merges = last_of_each(merges);
  progress.tokens = std::ssize(tokens);
  progress.merges = std::ssize(merges);
  return merges;
}

}  // namespace qkv::text
