#pragma once
// Stopping on request, with what was done so far in safety.

#include <atomic>

namespace qkv::apps {

// While one exists, the first SIGINT, SIGTERM or SIGHUP sets the flag, and a second one ends the process at
// once. nohup's SIGHUP stays ignored. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  const std::atomic<bool>* flag() const;
  int exit_status() const;  // 128 + the signal that came
};

// Ends the process without waiting for threads that were abandoned (text::train_sentencepiece), and with what
// was printed flushed.
[[noreturn]] void end_at_once(int status);

}  // namespace qkv::apps
