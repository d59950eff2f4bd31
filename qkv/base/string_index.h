#pragma once
// A hash map from strings to numbers. Lookups neither copy nor allocate.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace qkv {

class StringIndex {
 public:
  static constexpr int32_t kNone = -1;

  // The number of a string, or kNone if absent.
  int32_t find(std::string_view key) const {
    if (slots_.empty()) return kNone;
    const uint64_t hash = hash_of(key);
    for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot slot = slots_[at];
      if (slot.entry == 0) return kNone;
      if (slot.tag == static_cast<uint32_t>(hash >> 32)) {
        const Entry& entry = entries_[slot.entry - 1];
        if (key_of(entry) == key) return entry.value;
      }
    }
  }

  // Reserves memory for `count` strings.
  void reserve(size_t count) {
    size_t slots = kFewest;
    while (slots < 2 * (count + 1)) slots *= 2;
    if (slots > slots_.size()) grow(slots);
    entries_.reserve(count);
  }

  // Maps a string to a number >= 0, replacing an earlier one.
  void set(std::string_view key, int32_t value) {
    if (2 * (entries_.size() + 1) > slots_.size()) grow(slots_.empty() ? kFewest : 2 * slots_.size());
    const uint64_t hash = hash_of(key);
    size_t at = hash & (slots_.size() - 1);
    for (; slots_[at].entry != 0; at = (at + 1) & (slots_.size() - 1)) {
      Entry& entry = entries_[slots_[at].entry - 1];
      if (key_of(entry) == key) {
        entry.value = value;
        return;
      }
    }
    // The characters first, so that no entry is without them if memory runs out in between.
    const auto begin = static_cast<uint32_t>(keys_.size());
    keys_ += key;
    entries_.push_back({begin, static_cast<uint32_t>(key.size()), value});
    slots_[at] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(entries_.size())};
  }

  size_t size() const { return entries_.size(); }

  void clear() {
    slots_.assign(slots_.size(), {});
    entries_.clear();
    keys_.clear();
  }

 private:
  struct Slot {
    uint32_t tag = 0, entry = 0;  // entry: 0 = free, otherwise its index + 1
  };
  struct Entry {
    uint32_t begin, length;
    int32_t value;
  };

  static constexpr size_t kFewest = 64;  // slots

  static uint64_t mix(uint64_t a, uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = Wide{a ^ 0x9E3779B97F4A7C15ull} * (b ^ 0xC2B2AE3D27D4EB4Full);
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }

  static uint64_t hash_of(std::string_view key) {
    uint64_t state = key.size(), word = 0;
    const char* next = key.data();
    size_t left = key.size();
    for (; left >= sizeof(word); next += sizeof(word), left -= sizeof(word)) {
      std::memcpy(&word, next, sizeof(word));
      state = mix(state, word);
    }
    word = 0;
    if (left > 0) std::memcpy(&word, next, left);
    return mix(state, word);
  }

  std::string_view key_of(const Entry& entry) const { return {keys_.data() + entry.begin, entry.length}; }

  void grow(size_t slots) {
    slots_.assign(slots, {});
    for (size_t i = 0; i < entries_.size(); ++i) {
      const uint64_t hash = hash_of(key_of(entries_[i]));
      size_t at = hash & (slots - 1);
      while (slots_[at].entry != 0) at = (at + 1) & (slots - 1);
      slots_[at] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(i + 1)};
    }
  }

  std::vector<Slot> slots_;  // a power of two of slots, at most half full
  std::vector<Entry> entries_;
  std::string keys_;
};

}  // namespace qkv
