#pragma once
// What steps of training are made of, prepared while the step before runs.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "qkv/data/batches.h"

namespace qkv::train {

// The batches whose gradients make one step.
struct StepBatches {
  std::vector<data::TranslationRows> rows;
  int64_t tokens = 0, labels = 0;  // of all of them
  data::CursorState after;         // where the cursor stands behind them: what a checkpoint remembers
  int64_t batches_in_epoch = 0;    // of that epoch
};

// Steps in the order of a cursor; a thread of its own prepares the next one. Steps that were prepared and
// never asked for leave no trace: going on from `after` gives them again.
class Prefetcher {
 public:
  // The store must outlive the feed.
  Prefetcher(const data::TokenStore& store, data::BatchCursor cursor, data::SpecialIds special,
             int64_t batches_of_step);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Throws again what went wrong while it was prepared.
  StepBatches next();
  // Of the epoch that the next step begins in.
  int64_t batches_in_epoch() const { return batches_in_epoch_; }

 private:
  StepBatches prepare();
  void work();

  const data::TokenStore& store_;
  data::BatchCursor cursor_;  // only the thread touches it
  data::SpecialIds special_;
  int64_t batches_of_step_, batches_in_epoch_;

  std::mutex mutex_;  // of the next four
  std::condition_variable changed_;
  std::optional<StepBatches> ready_;
  std::exception_ptr error_;
  bool stop_ = false;

  std::thread thread_;
};

}  // namespace qkv::train
