#pragma once
// A fast 64-bit hash, to detect changed or truncated files. Not cryptographic.

#include <cstdint>
#include <cstring>
#include <string_view>

namespace qkv {

// Incremental: the value depends on the bytes and their order, not on the pieces in which they are added.
class Hash64 {
 public:
  void add(const void* data, size_t bytes) {
    if (bytes == 0) return;
    const char* next = static_cast<const char*>(data);
    length_ += bytes;
    if (held_ > 0) {
      const size_t taken = bytes < sizeof(word_) - held_ ? bytes : sizeof(word_) - held_;
      std::memcpy(word_ + held_, next, taken);
      held_ += taken;
      next += taken;
      bytes -= taken;
      if (held_ < sizeof(word_)) return;
      mix(word_);
      held_ = 0;
    }
    for (; bytes >= sizeof(word_); next += sizeof(word_), bytes -= sizeof(word_)) mix(next);
    if (bytes > 0) std::memcpy(word_, next, bytes);
    held_ = bytes;
  }
  void add(std::string_view text) { add(text.data(), text.size()); }
  void add(uint64_t number) { add(&number, sizeof(number)); }

  uint64_t value() const {
    Hash64 last = *this;
    std::memset(last.word_ + held_, 0, sizeof(word_) - held_);
    last.mix(last.word_);
    return finish(last.state_ ^ length_);
  }

 private:
  static uint64_t finish(uint64_t x) {  // MurmurHash3's finaliser: every input bit affects every output bit
    x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDull;
    x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53ull;
    return x ^ (x >> 33);
  }
  void mix(const char* bytes) {
    uint64_t word;
    std::memcpy(&word, bytes, sizeof(word));
    state_ = (state_ ^ word) * 0x9E3779B97F4A7C15ull;
    state_ ^= state_ >> 29;
  }

  uint64_t state_ = 0x243F6A8885A308D3ull, length_ = 0;
  char word_[8] = {};
  size_t held_ = 0;
};

}  // namespace qkv
