#pragma once
// Prepares the batches of a training step while the previous one runs.

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

// The batches of one step.
struct StepBatches {
  std::vector<std::unique_ptr<Batch>> batches;
  BatchSize size;                // total
  data::CursorState after;       // the position after them, stored in checkpoints
  int64_t batches_in_epoch = 0;  // in that position's epoch
};

// Steps in the order of a stream, prepared by a separate thread, or by next() if the system refuses the
// thread. Steps prepared but not requested have no effect: a stream from `after` yields them again.
class Prefetcher {
 public:
  // Throws the errors of the stream; UsageError for none, and for fewer than 1 batch per step. The stream
  // must not be used elsewhere.
  Prefetcher(std::unique_ptr<BatchStream> stream, int64_t batches_per_step);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Rethrows an error of the preparation.
  StepBatches next();
  // In the epoch in which the next step begins.
  int64_t batches_in_epoch() const { return batches_in_epoch_; }
  // BatchStream::warmup_batches() at the beginning.
  int64_t warmup_batches() const { return warmup_batches_; }

 private:
  StepBatches prepare();
  StepBatches take();  // the steps prepared by the thread
  void work();

  std::unique_ptr<BatchStream> stream_;  // used by the thread only
  int64_t batches_per_step_, batches_in_epoch_, warmup_batches_;

  std::mutex mutex_;  // protects the next four
  std::condition_variable changed_;
  std::optional<StepBatches> ready_;
  std::exception_ptr error_;
  bool stop_ = false;

  std::thread thread_;
};

}  // namespace qkv::train
