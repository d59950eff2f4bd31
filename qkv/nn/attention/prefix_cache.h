#pragma once
// Prefix cache: keys and values of past prompts, reused by prompts with the same beginning.

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "qkv/nn/decoder.h"

namespace qkv::nn {

// Keeps the states of the most recently used prompts, within a budget of bytes. Cached states share their
// memory with the requests that use them and with each other, and count in full. Decoders without memory
// only.
class PrefixCache {
 public:
  // Sets the budget, 0 at first, which caches nothing. Evicts the least recently used prompts beyond it.
  void limit(int64_t bytes);

  // Caches a state of one row that has read exactly these tokens with Decoder::read(): decoding steps sum in
  // another order. Evicts the least recently used prompts.
  void keep(std::span<const int32_t> ids, const DecoderState& state);

  struct Found {
    int64_t positions = 0;
    DecoderState state;
  };
  // The state after the longest common prefix of `ids` with a cached prompt, where that can be shared;
  // nothing if there is none.
  std::optional<Found> find(std::span<const int32_t> ids);

  int64_t bytes() const { return bytes_; }  // of all cached prompts

 private:
  struct Entry {
    std::vector<int32_t> ids;
    DecoderState state;
    int64_t bytes = 0;
  };
  int64_t budget_ = 0, bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace qkv::nn
