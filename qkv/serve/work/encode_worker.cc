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
    first = submitted_;
    for (Job& job : jobs) {
      const int64_t tokens = tokens_(*job.request);
      waiting_tokens_ += tokens;
      waiting_.push({.id = submitted_++,
                     .client = call->client(),
                     .deadline = call->deadline(),
                     .job = {call, std::move(job), tokens}});
    }
    end = submitted_;
    counters_.waiting = std::ssize(waiting_);
  }
  changed_.notify_one();
  call->on_cancel([this, first, end] { drop(first, end); });
}

// Removes the queued inputs of a cancelled call.
template <class Request>
void EncodeWorker<Request>::drop(uint64_t first, uint64_t end_id) {
  std::vector<typename Queue::Entry> dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped = waiting_.remove_if([&](const auto& entry) { return entry.id >= first && entry.id < end_id; });
    for (const auto& entry : dropped) waiting_tokens_ -= entry.job.tokens;
    counters_.waiting = std::ssize(waiting_);
  }
  for (const auto& entry : dropped) end_unwanted(entry.job);
}

// Ends an input whose client disconnected or whose deadline passed.
template <class Request>
void EncodeWorker<Request>::end_unwanted(const Queued& one) {
  if (one.call->deadline() > Clock::now()) return end(one, nullptr, nullptr);
  ++counters_.expired;
  end(one, nullptr, std::make_exception_ptr(DeadlineExceeded()));
}

template <class Request>
void EncodeWorker<Request>::run() {
  std::vector<Queued> batch;
  while (true) {
    try {
      batch = next_batch();
      if (batch.empty()) break;
      std::vector<Queued> wanted;
      wanted.reserve(batch.size());
      for (Queued& one : batch) {
        if (one.call->cancelled() || one.call->deadline() <= Clock::now()) {
          end_unwanted(one);
        } else {
          wanted.push_back(std::move(one));
        }
      }
      batch.clear();
      if (!wanted.empty()) run_batch(std::move(wanted));
    } catch (...) {
      // Memory ran out outside of the model.
      for (const Queued& one : batch) {
        if (one.call) end(one, nullptr, std::current_exception());
      }
      batch.clear();
    }
    counters_.running = 0;
  }
  const std::lock_guard lock(mutex_);
  while (const auto entry = waiting_.pop()) end(entry->job, nullptr, std::make_exception_ptr(ShuttingDown()));
}

// Waits for inputs; none: the worker is stopping.
template <class Request>
auto EncodeWorker<Request>::next_batch() -> std::vector<Queued> {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
  if (options_.max_wait.count() > 0) {
    changed_.wait_for(lock, options_.max_wait,
                      [&] { return stopping_ || waiting_tokens_ >= options_.batch_tokens; });
  }
  std::vector<Queued> batch;
  if (stopping_) return batch;
  for (int64_t tokens = 0; tokens < options_.batch_tokens;) {
    auto entry = waiting_.pop();
    if (!entry) break;
    tokens += entry->job.tokens;
    waiting_tokens_ -= entry->job.tokens;
    batch.push_back(std::move(entry->job));
  }
  counters_.waiting = std::ssize(waiting_);
  counters_.running = std::ssize(batch);
  return batch;
}

template <class Request>
void EncodeWorker<Request>::run_batch(std::vector<Queued> batch) {
  std::vector<const Request*> requests;
  for (const Queued& one : batch) requests.push_back(one.job.request.get());
  std::vector<char> ended(batch.size());
  std::exception_ptr error;
  counters_.count_step(std::ssize(batch));
  try {
    encode_(requests, [&](size_t i, const Tensor& hidden) {
      ended[i] = 1;
      end(batch[i], &hidden, nullptr);
    });
  } catch (...) {
    error = std::current_exception();
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    if (ended[i]) continue;
    if (batch.size() == 1) {
      end(batch[i], nullptr, error);
      continue;
    }
    // The error may concern another input of the batch.
    std::vector<Queued> alone;
    alone.push_back(std::move(batch[i]));
    run_batch(std::move(alone));
  }
}

template <class Request>
void EncodeWorker<Request>::end(const Queued& one, const Tensor* hidden, const std::exception_ptr& error) {
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
