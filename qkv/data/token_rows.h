#pragma once
// Sequences of token ids laid end to end.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/tensor/ragged.h"

namespace qkv::data {

// Concatenated sequences: sequence i is ids[offsets[i]] .. ids[offsets[i + 1] - 1]; offsets has one entry
// more than there are sequences and begins with 0.
struct TokenRows {
  std::vector<int32_t> ids, offsets{0};

  int64_t sequences() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
  // Appends to the current sequence.
  void append(std::span<const int32_t> more) { ids.insert(ids.end(), more.begin(), more.end()); }
  // Ends the current sequence, which has the ids added since the last call. Throws UsageError for 2^31
  // tokens.
  void end_sequence();
  // A copy as a batch of the model's input.
  Ragged ragged() const;
};

}  // namespace qkv::data
