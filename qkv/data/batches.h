#pragma once
// Batches with a budget of tokens.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/data/token_store.h"
#include "qkv/text/special_ids.h"

namespace qkv::data {

// Concatenated sequences: sequence i is ids[offsets[i]] .. ids[offsets[i + 1] - 1]; offsets has one entry
// more than there are sequences and begins with 0.
struct TokenRows {
  std::vector<int32_t> ids, offsets{0};

  int64_t sequences() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
  // Ends the current sequence, which has the ids added since the last call.
  void end_sequence();
};

// Training data of a translation model. `decoder_input` and `labels` have the same offsets: the label of a
// position is the next token.
struct TranslationRows {
  TokenRows source;         // the source's ids, then </s>
  TokenRows decoder_input;  // the start token, then the target's ids
  TokenRows labels;         // the target's ids, then </s>
};

// The rows of the given pairs, in order. Throws UsageError if `special` has no start token.
TranslationRows make_rows(const TokenStore& store, std::span<const int64_t> pairs,
                          const text::SpecialIds& special);

// A pair's cost: source + target tokens with their </s>. Ragged batches have no padding, so this is what is
// computed.
inline int64_t pair_cost(const TokenStore& store, int64_t pair) {
  return store.source_length(pair) + store.target_length(pair) + 2;
}

struct Batch {
  int64_t epoch = 0;           // from 0
  int64_t index = 0;           // within the epoch, from 0
  std::vector<int64_t> pairs;  // indices into the store
  int64_t tokens = 0;          // sum of the pairs' costs
};

struct BatchOptions {
  int64_t max_tokens = 4096;  // sum of pair_cost(); a pair above it is a batch of its own
  // Pairs are shuffled, then sorted by length within windows of this many pairs, then cut into batches. 1: no
  // sorting, every batch is a random sample. Larger windows make lengths within a batch more alike and
  // batches less random. As nothing is padded, sorting saves no work.
  int64_t window = 1;
  uint64_t seed = 1;
};

// A cursor's position: the batch that next() returns next.
struct CursorState {
  int64_t epoch = 0;
  int64_t batch = 0;

  bool operator==(const CursorState&) const = default;
};

// An endless sequence of batches, epoch by epoch. An epoch contains every pair once, in an order that is a
// function of (store's lengths, options, epoch). Memory: 8 bytes per pair.
class BatchCursor {
 public:
  // The store must outlive the cursor. Throws UsageError for options or a state out of range.
  BatchCursor(const TokenStore& store, const BatchOptions& options, CursorState state = {});

  Batch next();

  CursorState state() const { return state_; }
  // Restores a state() of a cursor with the same store and options. Throws UsageError if it is out of range.
  void restore(CursorState state);

  int64_t batches_in_epoch() const { return static_cast<int64_t>(bounds_.size()); }  // of state().epoch

 private:
  struct Bounds {
    int64_t begin, end;  // of a batch in order_
  };
  void plan_epoch(int64_t epoch);

  const TokenStore* store_;
  BatchOptions options_;
  CursorState state_;
  std::vector<int64_t> order_;
  std::vector<Bounds> bounds_;
};

// Applies batches_by_length() to a store's pairs, for validation; costs are pair_cost().
std::vector<Batch> sequential_batches(const TokenStore& store, int64_t max_tokens);

}  // namespace qkv::data
