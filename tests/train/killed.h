#pragma once

#include <cstdint>

#include "qkv/train/job.h"

namespace qkv::testing {

// Resumes or starts the job in a process of its own (killed_run), which kills itself after the step.
void run_killed(const train::Job& job, int64_t step);

}  // namespace qkv::testing
