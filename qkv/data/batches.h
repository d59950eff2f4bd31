#pragma once
// Batches of items (pairs, texts, images) with a budget, such as a number of tokens.

#include <cstdint>
#include <span>
#include <vector>

namespace qkv::data {

struct Batch {
  int64_t epoch = 0;           // from 0
  int64_t index = 0;           // within the epoch, from 0
  std::vector<int64_t> items;  // indices
  int64_t cost = 0;            // sum of the items' costs
};

struct BatchOptions {
  int64_t budget = 4096;  // maximum sum of the items' costs; an item above it is a batch of its own
  // Items are shuffled, then sorted by cost within windows of this many items, then cut into batches. 1: no
  // sorting, every batch is a random sample. Larger windows make costs (lengths) within a batch more alike
  // and batches less random. As nothing is padded, sorting saves no work.
  int64_t window = 1;
  int64_t max_batches = 0;  // of an epoch, a random sample of it; 0: all
  uint64_t seed = 1;
};

// A cursor's position: the batch that next() returns next.
struct CursorState {
  int64_t epoch = 0;
  int64_t batch = 0;

  bool operator==(const CursorState&) const = default;
};

// An endless sequence of batches, epoch by epoch. An epoch contains every item once, in an order that is a
// function of (costs, options, epoch). Memory: 16 bytes per item.
class BatchCursor {
 public:
  // costs[i] is item i's: its tokens, or 1. Items of equal cost are sorted by `ties`, if given. Throws
  // UsageError for no items, for another number of ties, and for costs (0 to 2^31 - 1), options or a state
  // out of range.
  BatchCursor(std::vector<int64_t> costs, const BatchOptions& options, CursorState state = {},
              std::vector<int64_t> ties = {});

  Batch next();

  CursorState state() const { return state_; }
  // Restores a state() of a cursor with the same costs and options. Throws UsageError if it is out of range.
  void restore(CursorState state);

  int64_t batches_in_epoch() const { return static_cast<int64_t>(bounds_.size()); }  // of state().epoch

 private:
  struct Bounds {
    int64_t begin, end;  // of a batch in order_
  };
  void plan_epoch(int64_t epoch);
  int64_t cost(int64_t item) const { return costs_[static_cast<size_t>(item)]; }

  std::vector<int64_t> costs_, ties_;
  BatchOptions options_;
  CursorState state_;
  std::vector<int64_t> order_;
  std::vector<Bounds> bounds_;
};

// All items, in batches of similar cost, for validation: batches_by_length() as Batches.
std::vector<Batch> sequential_batches(std::span<const int64_t> costs, int64_t budget);

}  // namespace qkv::data
