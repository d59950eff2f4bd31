#pragma once
// Counters of a worker, read by /metrics while it runs.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace qkv::serve {

struct WorkerCounters {
  std::atomic<int64_t> waiting = 0, running = 0;                            // requests, now
  std::atomic<int64_t> done = 0, cancelled = 0, failed = 0;                 // requests, since the start
  std::atomic<int64_t> expired = 0, refused = 0;                            // deadlines passed; queue full
  std::atomic<int64_t> steps = 0, rows = 0, tokens_in = 0, tokens_out = 0;  // of the model, since the start
  std::atomic<int64_t> max_rows = 0;                                        // of one step or batch
  std::atomic<int64_t> reserved_bytes = 0;                                  // of the KV cache, now

  // Of a step or a batch with that many rows.
  void count_step(int64_t step_rows) {
    ++steps;
    rows += step_rows;
    max_rows = std::max<int64_t>(max_rows, step_rows);  // one thread writes
  }
};

}  // namespace qkv::serve
