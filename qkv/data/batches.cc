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

void check_budget(int64_t max_tokens) {
  if (max_tokens < 1) throw UsageError(concat("tokens in a batch: expected at least 1, found ", max_tokens));
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

void append(TokenRows& rows, std::span<const int32_t> ids) {
  rows.ids.insert(rows.ids.end(), ids.begin(), ids.end());
}

}  // namespace

void TokenRows::end_sequence() {
  if (ids.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw UsageError(concat("tokens in a batch: expected at most 2^31 - 1, found ", ids.size()));
  }
  offsets.push_back(static_cast<int32_t>(ids.size()));
}

TranslationRows make_rows(const TokenStore& store, std::span<const int64_t> pairs,
                          const text::SpecialIds& special) {
  if (!special.start) throw UsageError("make_rows: expected a start token, found none");
  TranslationRows rows;
  for (const int64_t pair : pairs) {
    append(rows.source, store.source(pair));
    rows.source.ids.push_back(special.eos);
    rows.source.end_sequence();
    rows.decoder_input.ids.push_back(*special.start);
    append(rows.decoder_input, store.target(pair));
    rows.decoder_input.end_sequence();
    append(rows.labels, store.target(pair));
    rows.labels.ids.push_back(special.eos);
    rows.labels.end_sequence();
  }
  return rows;
}

BatchCursor::BatchCursor(const TokenStore& store, const BatchOptions& options, CursorState state)
    : store_(&store), options_(options) {
  check_budget(options.max_tokens);
  if (options.window < 1) {
    throw UsageError(concat("sort_window: expected at least 1, found ", options.window));
  }
  if (store.pairs() == 0) throw UsageError("batches: expected a corpus of at least one pair, found none");
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
  const int64_t pairs = store_->pairs();
  order_.resize(static_cast<size_t>(pairs));
  std::iota(order_.begin(), order_.end(), int64_t{0});
  shuffle(order_, random);
  for (int64_t begin = 0; begin < pairs; begin += options_.window) {
    const auto window = std::span(order_).subspan(
        static_cast<size_t>(begin), static_cast<size_t>(std::min(options_.window, pairs - begin)));
    // Every other window is sorted in descending order, so that lengths also match where two windows meet.
    // The keys are the pair's total length, then the target's. Ties keep their random order.
    const bool down = begin / options_.window % 2 == 1;
    std::ranges::stable_sort(window, [&](int64_t a, int64_t b) {
      if (down) std::swap(a, b);
      const int64_t cost_a = pair_cost(*store_, a), cost_b = pair_cost(*store_, b);
      return cost_a != cost_b ? cost_a < cost_b : store_->target_length(a) < store_->target_length(b);
    });
  }
  bounds_.clear();
  cut(
      pairs, options_.max_tokens,
      [&](int64_t place) { return pair_cost(*store_, order_[static_cast<size_t>(place)]); },
      [&](int64_t begin, int64_t end) {
        bounds_.push_back({begin, end});
      });
  shuffle(bounds_, random);
}

Batch BatchCursor::next() {
  const Bounds bounds = bounds_[static_cast<size_t>(state_.batch)];
  Batch batch{.epoch = state_.epoch,
              .index = state_.batch,
              .pairs = {order_.begin() + bounds.begin, order_.begin() + bounds.end},
              .tokens = 0};
  for (const int64_t pair : batch.pairs) batch.tokens += pair_cost(*store_, pair);
  if (++state_.batch == batches_in_epoch()) {
    state_ = {state_.epoch + 1, 0};
    plan_epoch(state_.epoch);
  }
  return batch;
}

std::vector<Batch> sequential_batches(const TokenStore& store, int64_t max_tokens) {
  std::vector<int64_t> costs(static_cast<size_t>(store.pairs()));
  for (int64_t i = 0; i < store.pairs(); ++i) costs[static_cast<size_t>(i)] = pair_cost(store, i);
  std::vector<Batch> batches;
  for (const std::vector<size_t>& pairs : batches_by_length(costs, max_tokens)) {
    Batch batch{.epoch = 0,
                .index = static_cast<int64_t>(batches.size()),
                .pairs = {pairs.begin(), pairs.end()},
                .tokens = 0};
    for (const size_t pair : pairs) batch.tokens += costs[pair];
    batches.push_back(std::move(batch));
  }
  return batches;
}

}  // namespace qkv::data
