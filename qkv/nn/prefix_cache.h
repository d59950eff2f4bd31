#pragma once
// Keys and values of prompts that have been read, for prompts with the same beginning.

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "qkv/nn/decoder.h"

namespace qkv::nn {

// Keeps the states of the prompts that were used last, within a budget of positions. What is kept shares its
// memory with the requests that began with it. Of decoders without memory.
class PrefixCache {
 public:
  // The most positions of all kept prompts together; 0: none is kept.
  explicit PrefixCache(int64_t positions) : budget_(positions) {}

  // Keeps a copy of a state of one row that has read these tokens and no others, all of them by
  // Decoder::read(). Drops the prompts that were not used for longest.
  void keep(std::span<const int32_t> ids, const DecoderState& state);

  struct Found {
    int64_t positions = 0;
    DecoderState state;
  };
  // The state after the longest beginning of `ids` that a kept prompt begins with too. None where not even
  // the first token is.
  std::optional<Found> find(std::span<const int32_t> ids);

  int64_t positions() const { return positions_; }  // of all kept prompts

 private:
  struct Entry {
    std::vector<int32_t> ids;
    DecoderState state;
  };
  int64_t budget_, positions_ = 0;
  std::list<Entry> entries_;  // used last first
};

}  // namespace qkv::nn
