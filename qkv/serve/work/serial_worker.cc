#include "qkv/serve/work/serial_worker.h"

#include <optional>
#include <utility>

#include "qkv/serve/error.h"

namespace qkv::serve {

SerialWorker::SerialWorker(size_t queue) : queue_limit_(queue) {
  thread_ = std::thread([this] { run(); });
}

SerialWorker::~SerialWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SerialWorker::submit(const CallHandle& call, SerialJob job, QueueLimit limit) {
  uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) throw ShuttingDown();
    if (limit == QueueLimit::counts && !waiting_.admits(call->client(), 1, queue_limit_)) {
      ++counters_.refused;
      throw QueueFull(waiting_.size());
    }
    id = submitted_++;
    waiting_.push(
        {.id = id, .client = call->client(), .deadline = call->deadline(), .job = {call, std::move(job)}});
    counters_.waiting = std::ssize(waiting_);
  }
  changed_.notify_one();
  call->on_cancel([this, id] { drop(id); });
}

// Removes the queued job of a cancelled call.
void SerialWorker::drop(uint64_t id) {
  FairQueue<Queued>::Entries dropped;  // destroyed after the lock
  const std::lock_guard lock(mutex_);
  dropped = waiting_.remove_if([id](const auto& entry) { return entry.id == id; });
  counters_.waiting = std::ssize(waiting_);
  for (const auto& entry : dropped)
    ++(entry.deadline <= Clock::now() ? counters_.expired : counters_.cancelled);
}

void SerialWorker::run() {
  while (true) {
    std::optional<FairQueue<Queued>::Entry> entry;
    bool stopping = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      stopping = stopping_;
      entry = waiting_.pop();
      counters_.waiting = std::ssize(waiting_);
    }
    if (!entry) break;
    counters_.running = 1;
    run_one(entry->job, stopping);
    counters_.running = 0;
  }
}

void SerialWorker::run_one(const Queued& queued, bool stopping) {
  const auto& [call, job] = queued;
  try {
    if (stopping) throw ShuttingDown();
    call->require_wanted();
    counters_.count_step(1);
    job.run();
    ++counters_.done;
  } catch (const Cancelled&) {
    ++counters_.cancelled;
  } catch (const DeadlineExceeded&) {
    ++counters_.expired;
    ++counters_.failed;
    job.on_failed(std::current_exception());
  } catch (...) {
    ++counters_.failed;
    job.on_failed(std::current_exception());
  }
}

}  // namespace qkv::serve
