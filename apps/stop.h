#pragma once
// Graceful stopping by signals.

#include <atomic>

namespace qkv::apps {

// During its lifetime, the first SIGINT, SIGTERM or SIGHUP sets the flag, and a second one ends the process
// immediately. SIGHUP ignored by nohup stays ignored. Only one object at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  const std::atomic<bool>* flag() const;
  int exit_status() const;  // 128 + the received signal
};

// Flushes the output and ends the process without waiting for abandoned threads (text::train_sentencepiece).
[[noreturn]] void end_at_once(int status);

}  // namespace qkv::apps
