#include "qkv/serve/work/decode_worker.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "qkv/serve/error.h"

namespace qkv::serve {

DecodeWorker::DecodeWorker(std::function<search::Engine()> make_engine, const search::EngineOptions& options,
                           size_t queue)
    : make_engine_(std::move(make_engine)), options_(options), queue_limit_(queue) {
  thread_ = std::thread([this] { run(); });
}

DecodeWorker::~DecodeWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DecodeWorker::submit(const CallHandle& call, std::vector<DecodeJob> jobs, QueueLimit limit) {
  uint64_t first = 0, end = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) throw ShuttingDown();
    if (limit == QueueLimit::counts && !waiting_.admits(call->client(), jobs.size(), queue_limit_)) {
      counters_.refused += std::ssize(jobs);
      throw QueueFull(waiting_.size());
    }
    first = end = submitted_;
    Queue::Entries entries;
    for (DecodeJob& job : jobs) {
      entries.push_back(
          {.id = end++, .client = call->client(), .deadline = call->deadline(), .job = std::move(job)});
    }
    waiting_.push(entries);
    submitted_ = end;
    counters_.waiting = std::ssize(waiting_);
  }
  changed_.notify_one();
  call->on_cancel([this, first, end] { cancel(first, end); });
}

void DecodeWorker::cancel(uint64_t first, uint64_t end) {
  {
    const std::lock_guard lock(mutex_);
    for (uint64_t id = first; id < end; ++id) cancelled_.insert(id);
  }
  changed_.notify_one();
}

void DecodeWorker::run() {
  std::unique_ptr<search::Engine> engine;
  std::vector<std::pair<Queue::Entry, search::Decoded>> ended;
  while (true) {
    std::set<uint64_t> cancelled;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(
          lock, [&] { return stopping_ || !waiting_.empty() || !cancelled_.empty() || !running_.empty(); });
      if (stopping_) break;
      cancelled.swap(cancelled_);
    }
    try {
      if (!engine) engine.reset(new search::Engine(make_engine_()));
      // A call is cancelled after its deadline too, but counts as expired.
      drop_expired(*engine, !cancelled.empty());
      drop_cancelled(*engine, cancelled);
      feed(*engine);
      if (engine->idle()) continue;
      ended.reserve(running_.size());  // no allocation may fail between taking an entry and answering it
      for (search::Decoded& decoded : engine->step()) {
        const auto found = running_.find(decoded.request_id);
        if (found == running_.end()) continue;
        ended.emplace_back(std::move(found->second), std::move(decoded));
        running_.erase(found);
      }
      // Count before replying, so that the metrics include every response a client has received.
      if (engine->last_step_rows() > 0) counters_.count_step(engine->last_step_rows());
      counters_.running = std::ssize(running_);
      counters_.reserved_bytes = engine->reserved_bytes();
      for (auto& [entry, decoded] : ended) end(entry, std::move(decoded));
      ended.clear();  // an entry keeps its model, and with it this worker
    } catch (...) {
      // For example out of memory outside a request: the engine's state is unknown.
      end_all(std::current_exception());
      engine.reset();
    }
  }
  end_all(error_of<ShuttingDown>());
}

void DecodeWorker::end(const Queue::Entry& entry, search::Decoded decoded) {
  if (decoded.cancelled) {
    ++counters_.cancelled;
  } else if (decoded.error) {
    ++counters_.failed;
  } else {
    ++counters_.done;
    counters_.tokens_in += std::ssize(entry.job.request.source);
    for (const search::Hypothesis& one : decoded.hypotheses) counters_.tokens_out += std::ssize(one.ids);
  }
  entry.job.on_done(std::move(decoded));
}

// Ends all requests, running and waiting. Allocates nothing, as memory may have run out.
void DecodeWorker::end_all(const std::exception_ptr& error) {
  const auto end_one = [&](const Queue::Entry& entry) {
    search::Decoded decoded;
    decoded.error = error;
    end(entry, std::move(decoded));
  };
  Queue::Entries waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting = waiting_.remove_if([](const Queue::Entry& /*entry*/) { return true; });
    counters_.waiting = 0;
  }
  counters_.running = 0;
  while (!running_.empty()) end_one(running_.extract(running_.begin()).mapped());
  for (const Queue::Entry& entry : waiting) end_one(entry);
}

// Hands waiting requests to the engine, as many as it may admit at once: the rest stays in the fair queue.
void DecodeWorker::feed(search::Engine& engine) {
  const int64_t most =
      options_.batch_tokens > 0 ? options_.batch_tokens : std::numeric_limits<int64_t>::max();
  while (engine.queued_tokens() < most) {
    std::optional<Queue::Entry> entry;
    {
      const std::lock_guard lock(mutex_);
      entry = waiting_.pop();
      counters_.waiting = std::ssize(waiting_);
    }
    if (!entry) return;
    search::Decoded refused;
    std::optional<uint64_t> id;
    try {
      id = engine.submit(entry->job.request);
      running_.emplace(*id, std::move(*entry));
      continue;
    } catch (...) {
      refused.error = std::current_exception();
    }
    end(*entry, std::move(refused));
    if (id) engine.cancel(*id);
  }
}

void DecodeWorker::drop_cancelled(search::Engine& engine, const std::set<uint64_t>& ids) {
  if (ids.empty()) return;
  Queue::Entries dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped = waiting_.remove_if([&](const Queue::Entry& entry) { return ids.contains(entry.id); });
    counters_.waiting = std::ssize(waiting_);
  }
  for (const Queue::Entry& entry : dropped) {
    search::Decoded decoded;
    decoded.cancelled = true;
    end(entry, std::move(decoded));
  }
  std::vector<uint64_t> running;
  for (const auto& [engine_id, entry] : running_) {
    if (ids.contains(entry.id)) running.push_back(engine_id);
  }
  for (const uint64_t engine_id : running) engine.cancel(engine_id);  // reported by the next step
}

void DecodeWorker::drop_expired(search::Engine& engine, bool at_once) {
  const Clock::time_point now = Clock::now();
  if (now < next_expiry_ && !at_once) return;
  next_expiry_ = now + std::chrono::milliseconds(20);
  Queue::Entries dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped = waiting_.remove_if([&](const Queue::Entry& entry) { return entry.deadline <= now; });
    counters_.waiting = std::ssize(waiting_);
  }
  const auto expire = [&](const Queue::Entry& entry) {
    ++counters_.expired;
    search::Decoded decoded;
    decoded.error = error_of<DeadlineExceeded>();
    end(entry, std::move(decoded));
  };
  for (const Queue::Entry& entry : dropped) expire(entry);
  for (auto one = running_.begin(); one != running_.end();) {
    const auto next = std::next(one);
    if (one->second.deadline <= now) {
      engine.cancel(one->first);  // the next step reports it; the call is answered here
      expire(running_.extract(one).mapped());
    }
    one = next;
  }
}

}  // namespace qkv::serve
