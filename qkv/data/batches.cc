#include "qkv/data/batches.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "qkv/base/error.h"
#include "qkv/base/philox.h"
#include "qkv/data/batches_by_length.h"
#include "qkv/data/shuffle.h"

namespace qkv::data {
namespace {

void check_budget(int64_t budget) {
  if (budget < 1) throw UsageError(concat("budget of a batch: expected at least 1, found ", budget));
}

// Calls emit(begin, end) for consecutive ranges of [0, count) whose costs sum to at most `budget`; an item
// above it is a range of its own.
template <class Cost, class Emit>
void cut(int64_t count, int64_t budget, Cost cost, Emit emit) {
  int64_t begin = 0, sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t next = cost(i);
    if (i > begin && sum + next > budget) {
      emit(begin, i);
      begin = i;
      sum = 0;
    }
    sum += next;
  }
  if (begin < count) emit(begin, count);
}

}  // namespace

BatchCursor::BatchCursor(std::vector<int64_t> costs, const BatchOptions& options, CursorState state,
                         std::vector<int64_t> ties)
    : costs_(std::move(costs)), ties_(std::move(ties)), options_(options) {
  check_budget(options.budget);
  if (options.window < 1) {
    throw UsageError(concat("sort_window: expected at least 1, found ", options.window));
  }
  if (options.max_batches < 0) {
    throw UsageError(concat("max_batches: expected 0 or more, found ", options.max_batches));
  }
  if (costs_.empty()) throw UsageError("batches: expected at least one item, found none");
  if (!ties_.empty() && ties_.size() != costs_.size()) {
    throw UsageError(
        concat("batches: expected ", costs_.size(), " ties, one per item, found ", ties_.size()));
  }
  for (const int64_t cost : costs_) {  // whose sums then fit into 64 bits
    if (cost < 0 || cost > INT32_MAX)
      throw UsageError(concat("batches: expected costs from 0 to 2^31 - 1, found ", cost));
  }
  restore(state);
}

void BatchCursor::restore(CursorState state) {
  if (state.epoch < 0 || state.epoch >= (int64_t{1} << 32)) {
    throw UsageError(concat("epoch to continue from: expected 0 to 2^32 - 1, found ", state.epoch));
  }
  plan_epoch(state.epoch);
  const int64_t batches = batches_in_epoch();
  if (state.batch < 0 || state.batch >= batches) {
    plan_epoch(state_.epoch);
    throw UsageError(concat("batch to continue from: expected 0 to ", batches - 1, " in epoch ", state.epoch,
                            ", found ", state.batch, " (another corpus or batch size?)"));
  }
  state_ = state;
}

void BatchCursor::plan_epoch(int64_t epoch) {
  RandomStream random(options_.seed, kEpochStream + static_cast<uint64_t>(epoch));
  const int64_t items = std::ssize(costs_);
  order_.resize(costs_.size());
  std::iota(order_.begin(), order_.end(), int64_t{0});
  shuffle(order_, random);
  for (int64_t begin = 0; begin < items; begin += options_.window) {
    const auto window = std::span(order_).subspan(
        static_cast<size_t>(begin), static_cast<size_t>(std::min(options_.window, items - begin)));
    // Every other window is sorted in descending order, so that costs also match where two windows meet. Ties
    // keep their random order.
    const bool down = begin / options_.window % 2 == 1;
    std::ranges::stable_sort(window, [&](int64_t a, int64_t b) {
      if (down) std::swap(a, b);
      if (ties_.empty() || cost(a) != cost(b)) return cost(a) < cost(b);
      return ties_[static_cast<size_t>(a)] < ties_[static_cast<size_t>(b)];
    });
  }
  bounds_.clear();
  cut(
      items, options_.budget, [&](int64_t place) { return cost(order_[static_cast<size_t>(place)]); },
      [&](int64_t begin, int64_t end) {
        bounds_.push_back({begin, end});
      });
  shuffle(bounds_, random);
  if (options_.max_batches > 0 && options_.max_batches < batches_in_epoch())
    bounds_.resize(static_cast<size_t>(options_.max_batches));
}

Batch BatchCursor::next() {
  const Bounds bounds = bounds_[static_cast<size_t>(state_.batch)];
  Batch batch{.epoch = state_.epoch,
              .index = state_.batch,
              .items = {order_.begin() + bounds.begin, order_.begin() + bounds.end}};
  for (const int64_t item : batch.items) batch.cost += cost(item);
  if (++state_.batch == batches_in_epoch()) {
    state_ = {state_.epoch + 1, 0};
    plan_epoch(state_.epoch);
  }
  return batch;
}

std::vector<Batch> sequential_batches(std::span<const int64_t> costs, int64_t budget) {
  std::vector<Batch> batches;
  for (const std::vector<size_t>& items : batches_by_length(costs, budget)) {
    Batch batch{.index = std::ssize(batches), .items = {items.begin(), items.end()}};
    for (const size_t item : items) batch.cost += costs[item];
    batches.push_back(std::move(batch));
  }
  return batches;
}

}  // namespace qkv::data
