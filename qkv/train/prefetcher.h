#pragma once
// The batches of training steps, prepared while the step before runs.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "qkv/train/task.h"

namespace qkv::train {

// The batches whose gradients make one step.
struct StepBatches {
  std::vector<std::unique_ptr<Batch>> batches;
  BatchSize size;                // of all of them
  data::CursorState after;       // the position behind them: what a checkpoint remembers
  int64_t batches_in_epoch = 0;  // of that position's epoch
};

// Steps in the order of a stream; a thread of its own prepares the next one. Steps that were prepared and
// never asked for leave no trace: a stream from `after` gives them again.
class Prefetcher {
 public:
  // Throws what the stream throws. The stream must not be used elsewhere.
  Prefetcher(std::unique_ptr<BatchStream> stream, int64_t batches_per_step);
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

  std::unique_ptr<BatchStream> stream_;  // only the thread touches it
  int64_t batches_per_step_, batches_in_epoch_;

  std::mutex mutex_;  // of the next four
  std::condition_variable changed_;
  std::optional<StepBatches> ready_;
  std::exception_ptr error_;
  bool stop_ = false;

  std::thread thread_;
};

}  // namespace qkv::train
