#pragma once
// Verifies that a run is reproducible on this machine, bit for bit.

#include <atomic>
#include <cstdint>
#include <string>

#include "qkv/train/job.h"

namespace qkv::train {

struct VerifyResult {
  int64_t from = 0, to = 0;  // repeated steps: after `from`, up to `to`; 0: from the beginning
  int64_t tensors = 0;       // compared: weights, averages, optimizer state
  int64_t different = 0;
  std::string first_different;  // its name; "the position in the data" if only that differs; empty: all equal
};

// Repeats the last steps of the run in job.folder, from the checkpoint before the newest (from the beginning
// if there is only one), in a temporary folder, and compares the result with the newest checkpoint. `job` has
// the run's settings (RunFolder::settings()). The run is not changed. Throws UsageError if there is no
// checkpoint or another process uses the folder; DataError if the newest checkpoint is damaged; Stopped; the
// run's errors.
VerifyResult verify_resume(const Job& job, RunFolder folder, TrainObserver& observer,
                           const std::atomic<bool>* stop = nullptr);

}  // namespace qkv::train
