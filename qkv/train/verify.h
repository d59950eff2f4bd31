#pragma once
// Whether a run on this machine repeats itself to the bit.

#include <atomic>
#include <cstdint>
#include <string>

#include "qkv/train/job.h"

namespace qkv::train {

struct VerifyResult {
  int64_t from = 0, to = 0;  // steps that were redone: those behind `from`, up to `to`; 0: from the beginning
  int64_t tensors = 0;       // that were compared: weights, averages, the optimizer's state
  int64_t different = 0;
  std::string first_different;  // its name; "the position in the data" if only that differs; empty: all agree
};

// Redoes the last steps of the run in job.folder, from the checkpoint before the newest (from the beginning
// if there is only one), in a folder of its own that is removed at the end, and compares the result with the
// newest checkpoint. `job` has that run's settings (RunFolder::settings()). Nothing of the run changes.
// Throws UsageError if there is no checkpoint to compare with or another process works in the folder;
// DataError if the newest one is damaged; Stopped; what the run throws.
VerifyResult verify_resume(const Job& job, RunFolder folder, TrainObserver& observer,
                           const std::atomic<bool>* stop = nullptr);

}  // namespace qkv::train
