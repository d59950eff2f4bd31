#include "qkv/serve/work/encode_worker.h"

#include <utility>

#include "qkv/serve/error.h"

namespace qkv::serve {

template <class Request>
EncodeWorker<Request>::EncodeWorker(Encode encode, Tokens tokens, const EncodeOptions& options)
    : encode_(std::move(encode)), tokens_(std::move(tokens)), options_(options) {
  thread_ = std::thread([this] { run(); });
}

template <class Request>
EncodeWorker<Request>::~EncodeWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

template <class Request>
void EncodeWorker<Request>::submit(const CallHandle& call, std::vector<Job> jobs) {
  uint64_t first = 0, end = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) throw ShuttingDown();
    if (!waiting_.admits(call->client(), jobs.size(), options_.queue)) {
      counters_.refused += std::ssize(jobs);
      throw QueueFull(waiting_.size());
    }
    first = end = submitted_;
    typename Queue::Entries entries;
    int64_t tokens = 0;
    for (Job& job : jobs) {
      const int64_t own = tokens_(*job.request);
      tokens += own;
      entries.push_back({.id = end++,
                         .client = call->client(),
                         .deadline = call->deadline(),
                         .job = {call, std::move(job), own}});
    }
    waiting_.push(entries);
    waiting_tokens_ += tokens;
    submitted_ = end;
    counters_.waiting = std::ssize(waiting_);
  }
  changed_.notify_one();
  call->on_cancel([this, first, end] { drop(first, end); });
}

// Removes the queued inputs of a cancelled call.
template <class Request>
void EncodeWorker<Request>::drop(uint64_t first, uint64_t end_id) {
  typename Queue::Entries dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped = waiting_.remove_if([&](const auto& entry) { return entry.id >= first && entry.id < end_id; });
    for (const auto& entry : dropped) waiting_tokens_ -= entry.job.tokens;
    counters_.waiting = std::ssize(waiting_);
  }
  for (auto& entry : dropped) end_unwanted(entry.job);
}

// Ends an input whose client disconnected or whose deadline passed.
template <class Request>
void EncodeWorker<Request>::end_unwanted(Queued& one) {
  if (one.call->deadline() > Clock::now()) return end(one, nullptr, nullptr);
  ++counters_.expired;
  end(one, nullptr, error_of<DeadlineExceeded>());
}

template <class Request>
void EncodeWorker<Request>::run() {
  std::vector<Queued> batch;
  for (bool stopping = false; !stopping; batch.clear()) {
    try {
      stopping = !next_batch(batch);
      for (Queued& one : batch) {
        if (one.call->cancelled() || one.call->deadline() <= Clock::now()) end_unwanted(one);
      }
      std::erase_if(batch, [](const Queued& one) { return one.ended; });
      if (!batch.empty()) run_batch(batch);
    } catch (...) {
      // Memory ran out outside of the model.
      for (Queued& one : batch) end(one, nullptr, std::current_exception());
    }
    counters_.running = 0;
  }
  const std::lock_guard lock(mutex_);
  while (auto entry = waiting_.pop()) end(entry->job, nullptr, error_of<ShuttingDown>());
}

// Waits for inputs and adds them to `batch`. False: the worker is stopping.
template <class Request>
bool EncodeWorker<Request>::next_batch(std::vector<Queued>& batch) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
  if (options_.max_wait.count() > 0) {
    changed_.wait_for(lock, options_.max_wait,
                      [&] { return stopping_ || waiting_tokens_ >= options_.batch_tokens; });
  }
  if (stopping_) return false;
  for (int64_t tokens = 0; tokens < options_.batch_tokens && !waiting_.empty();) {
    batch.emplace_back();  // no allocation may fail between taking an entry and keeping it
    Queued one = std::move(waiting_.pop()->job);
    tokens += one.tokens;
    waiting_tokens_ -= one.tokens;
    batch.back() = std::move(one);
  }
  counters_.waiting = std::ssize(waiting_);
  counters_.running = std::ssize(batch);
  return true;
}

template <class Request>
void EncodeWorker<Request>::run_batch(std::span<Queued> batch) {
  std::exception_ptr error;
  counters_.count_step(std::ssize(batch));
  try {
    std::vector<const Request*> requests;
    for (const Queued& one : batch) requests.push_back(one.job.request.get());
    encode_(requests, [&](size_t i, const Tensor& hidden) { end(batch[i], &hidden, nullptr); });
  } catch (...) {
    error = std::current_exception();
  }
  for (Queued& one : batch) {
    if (one.ended) continue;
    if (batch.size() == 1) return end(one, nullptr, error);
    run_batch(std::span(&one, 1));  // the error may concern another input of the batch
  }
}

// Once: later calls have no effect.
template <class Request>
void EncodeWorker<Request>::end(Queued& one, const Tensor* hidden, const std::exception_ptr& error) {
  if (std::exchange(one.ended, true)) return;
  if (hidden) {
    ++counters_.done;
    counters_.tokens_in += one.tokens;
  } else {
    ++(error ? counters_.failed : counters_.cancelled);
  }
  one.job.on_done(hidden, error);
}

template class EncodeWorker<pipelines::EncoderRequest>;
template class EncodeWorker<pipelines::ImageRequest>;

}  // namespace qkv::serve
