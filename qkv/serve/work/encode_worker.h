#pragma once
// An encoder of texts or images with a thread of its own: runs the inputs of all clients of a model in
// batches.

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "qkv/pipelines/images/image_encoder.h"
#include "qkv/pipelines/text_encoder.h"
#include "qkv/serve/work/call.h"
#include "qkv/serve/work/counters.h"
#include "qkv/serve/work/fair_queue.h"

namespace qkv::serve {

struct EncodeOptions {
  int64_t batch_tokens = pipelines::kEncoderBatchTokens;  // tokens of a batch; a longer input is run alone
  std::chrono::microseconds max_wait{0};  // for further inputs while a batch is not full; 0: none
  size_t queue = 1024;                    // waiting inputs at most
};

// Request: pipelines::EncoderRequest or ImageRequest.
template <class Request>
struct EncodeJob {
  std::shared_ptr<const Request> request;  // without an error
  // Exactly once: the hidden states [tokens, d_model], or an error (DeadlineExceeded, ShuttingDown, the
  // model's) with null hidden states; neither for a cancelled call. On the worker's thread, or that of
  // Call::cancel(). Must not throw.
  std::function<void(const Tensor* hidden, const std::exception_ptr& error)> on_done;
};

// While a batch is computed, inputs gather for the next one. An input's result depends on it alone.
template <class Request>
class EncodeWorker {
 public:
  using Job = EncodeJob<Request>;
  // Calls use(index, hidden states) for each request, as pipelines::encode() does.
  using Encode = std::function<void(std::span<const Request* const> requests,
                                    const std::function<void(size_t request, const Tensor& hidden)>& use)>;
  using Tokens = std::function<int64_t(const Request& request)>;  // that count for batch_tokens

  // The functions are called on the worker's thread and by submit(), and must not throw but for `encode`.
  EncodeWorker(Encode encode, Tokens tokens, const EncodeOptions& options);
  // Ends all requests with ShuttingDown.
  ~EncodeWorker();
  EncodeWorker(const EncodeWorker&) = delete;
  EncodeWorker& operator=(const EncodeWorker&) = delete;

  // Queues the jobs of a call, all or none. Throws QueueFull and ShuttingDown.
  void submit(const CallHandle& call, std::vector<Job> jobs);

  const WorkerCounters& counters() const { return counters_; }

 private:
  struct Queued {
    CallHandle call;
    Job job;
    int64_t tokens = 0;
    bool ended = false;
  };
  using Queue = FairQueue<Queued>;

  void run();
  bool next_batch(std::vector<Queued>& batch);
  void run_batch(std::span<Queued> batch);
  void end(Queued& one, const Tensor* hidden, const std::exception_ptr& error);
  void end_unwanted(Queued& one);
  void drop(uint64_t first, uint64_t end_id);

  Encode encode_;
  Tokens tokens_;
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

using TextWorker = EncodeWorker<pipelines::EncoderRequest>;
using ImageWorker = EncodeWorker<pipelines::ImageRequest>;

}  // namespace qkv::serve
