#pragma once
// Stopping on request, with what was done so far in safety.

#include <atomic>

namespace qkv::apps {

// While one exists, the first SIGINT or SIGTERM sets the flag, and a second one ends the process at once. One
// at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  const std::atomic<bool>* flag() const;
  int exit_status() const;  // 128 + the signal that came
};

}  // namespace qkv::apps
