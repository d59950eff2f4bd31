#include "qkv/serve/work/encode_worker.h"

#include <utility>

#include "qkv/serve/error.h"

namespace qkv::serve {
namespace {

int64_t tokens_of(const EncodeJob& job) { return std::ssize(job.request->encoding.ids); }

}  // namespace

EncodeWorker::EncodeWorker(const models::TextEncoder& model, const EncodeOptions& options)
    : model_(model), options_(options) {
  thread_ = std::thread([this] { run(); });
}

EncodeWorker::~EncodeWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void EncodeWorker::submit(const CallHandle& call, std::vector<EncodeJob> jobs) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) throw ShuttingDown();
    // A call larger than the queue is taken when nothing else waits, as it could never be otherwise.
    if (!waiting_.empty() && waiting_.size() + jobs.size() > options_.queue) {
      counters_.refused += std::ssize(jobs);
      throw QueueFull(waiting_.size());
    }
    for (EncodeJob& job : jobs) {
      waiting_tokens_ += tokens_of(job);
      waiting_.push({.id = submitted_++,
                     .client = call->client(),
                     .deadline = call->deadline(),
                     .job = {call, std::move(job)}});
    }
    counters_.waiting = std::ssize(waiting_);
  }
  changed_.notify_one();
}

void EncodeWorker::run() {
  while (true) {
    std::vector<Queued> batch = next_batch();
    if (batch.empty()) break;
    // Those whose clients have left, or whose time is over, cost nothing.
    std::vector<Queued> wanted;
    for (Queued& one : batch) {
      if (one.call->cancelled()) {
        end(one, nullptr, nullptr);
      } else if (one.call->deadline() <= Clock::now()) {
        ++counters_.expired;
        end(one, nullptr, std::make_exception_ptr(DeadlineExceeded()));
      } else {
        wanted.push_back(std::move(one));
      }
    }
    if (!wanted.empty()) encode(std::move(wanted));
    counters_.running = 0;
  }
  const std::lock_guard lock(mutex_);
  while (const auto entry = waiting_.pop()) end(entry->job, nullptr, std::make_exception_ptr(ShuttingDown()));
}

// Waits for texts; none: the worker is stopping.
std::vector<EncodeWorker::Queued> EncodeWorker::next_batch() {
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
    tokens += tokens_of(entry->job.job);
    waiting_tokens_ -= tokens_of(entry->job.job);
    batch.push_back(std::move(entry->job));
  }
  counters_.waiting = std::ssize(waiting_);
  counters_.running = std::ssize(batch);
  return batch;
}

void EncodeWorker::encode(std::vector<Queued> batch) {
  std::vector<const pipelines::EncoderRequest*> requests;
  for (const Queued& one : batch) requests.push_back(one.job.request.get());
  std::vector<char> ended(batch.size());
  std::exception_ptr error;
  counters_.count_step(std::ssize(batch));
  try {
    pipelines::encode(
        model_, requests,
        [&](size_t i, const Tensor& hidden) {
          ended[i] = 1;
          end(batch[i], &hidden, nullptr);
        },
        options_.batch_tokens);
  } catch (...) {
    error = std::current_exception();
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    if (ended[i]) continue;
    if (batch.size() == 1) {
      end(batch[i], nullptr, error);
      continue;
    }
    // The error may concern another text of the batch.
    std::vector<Queued> alone;
    alone.push_back(std::move(batch[i]));
    encode(std::move(alone));
  }
}

void EncodeWorker::end(const Queued& one, const Tensor* hidden, const std::exception_ptr& error) {
  if (hidden) {
    ++counters_.done;
    counters_.tokens_in += tokens_of(one.job);
  } else {
    ++(error ? counters_.failed : counters_.cancelled);
  }
  one.job.on_done(hidden, error);
}

}  // namespace qkv::serve
