#pragma once
// A text encoder with a thread of its own: runs the texts of all clients of a model in batches.

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "qkv/pipelines/text_encoder.h"
#include "qkv/serve/work/call.h"
#include "qkv/serve/work/counters.h"
#include "qkv/serve/work/fair_queue.h"

namespace qkv::serve {

struct EncodeOptions {
  int64_t batch_tokens = pipelines::kEncoderBatchTokens;  // tokens of a batch; a longer text is run alone
  std::chrono::microseconds max_wait{0};  // for further texts while a batch is not full; 0: none
  size_t queue = 1024;                    // waiting texts at most
};

struct EncodeJob {
  std::shared_ptr<const pipelines::EncoderRequest> request;  // without an error
  // Exactly once, on the worker's thread: the hidden states [tokens, d_model], or an error (DeadlineExceeded,
  // ShuttingDown, the model's) with null hidden states; neither for a cancelled call. Must not throw.
  std::function<void(const Tensor* hidden, const std::exception_ptr& error)> on_done;
};

// While a batch is computed, texts gather for the next one. A text's result depends on it alone.
class EncodeWorker {
 public:
  // model must outlive the worker.
  EncodeWorker(const models::TextEncoder& model, const EncodeOptions& options);
  // Ends all requests with ShuttingDown.
  ~EncodeWorker();
  EncodeWorker(const EncodeWorker&) = delete;
  EncodeWorker& operator=(const EncodeWorker&) = delete;

  // Queues the jobs of a call, all or none. Throws QueueFull and ShuttingDown.
  void submit(const CallHandle& call, std::vector<EncodeJob> jobs);

  const WorkerCounters& counters() const { return counters_; }

 private:
  struct Queued {
    CallHandle call;
    EncodeJob job;
  };
  using Queue = FairQueue<Queued>;

  void run();
  std::vector<Queued> next_batch();
  void encode(std::vector<Queued> batch);
  void end(const Queued& one, const Tensor* hidden, const std::exception_ptr& error);

  const models::TextEncoder& model_;
  EncodeOptions options_;
  WorkerCounters counters_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Queue waiting_;  // guarded, as are the next three
  int64_t waiting_tokens_ = 0;
  uint64_t submitted_ = 0;
  bool stopping_ = false;

  std::thread thread_;  // last: uses all of the above
};

}  // namespace qkv::serve
