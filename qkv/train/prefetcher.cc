#include "qkv/train/prefetcher.h"

#include <system_error>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/base/thread.h"

namespace qkv::train {

namespace {

std::unique_ptr<BatchStream> required(std::unique_ptr<BatchStream> stream) {
  if (!stream) throw UsageError("batches: expected a stream, found none");
  return stream;
}

}  // namespace

Prefetcher::Prefetcher(std::unique_ptr<BatchStream> stream, int64_t batches_per_step)
    : stream_(required(std::move(stream))),
      batches_per_step_(batches_per_step),
      batches_in_epoch_(stream_->batches_in_epoch()),
      warmup_batches_(stream_->warmup_batches()) {
  if (batches_per_step < 1)
    throw UsageError(concat("batches: expected at least 1 per step, found ", batches_per_step));
  try {
    thread_ = start_thread([this] { work(); });
  } catch (const std::system_error& error) {
    log_warning(concat("cannot start a thread (", error.what(), "): batches are prepared between the steps"));
  }
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

StepBatches Prefetcher::next() {
  StepBatches step = thread_.joinable() ? take() : prepare();
  batches_in_epoch_ = step.batches_in_epoch;
  return step;
}

StepBatches Prefetcher::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ready_ || error_; });
  if (error_) std::rethrow_exception(error_);
  StepBatches step = std::move(*ready_);
  ready_.reset();
  lock.unlock();
  changed_.notify_all();
  return step;
}

StepBatches Prefetcher::prepare() {
  StepBatches step;
  for (int64_t i = 0; i < batches_per_step_; ++i) {
    step.batches.push_back(stream_->next());
    if (!step.batches.back()) throw UsageError("batches: expected one from the stream, found none");
    step.size += step.batches.back()->size;
  }
  step.after = stream_->state();
  step.batches_in_epoch = stream_->batches_in_epoch();
  return step;
}

void Prefetcher::work() {
  for (std::unique_lock lock(mutex_);;) {
    changed_.wait(lock, [this] { return stop_ || !ready_; });
    if (stop_) return;
    lock.unlock();
    std::optional<StepBatches> step;
    std::exception_ptr error;
    try {
      step = prepare();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    ready_ = std::move(step);
    error_ = error;
    changed_.notify_all();
    if (error) return;
  }
}

}  // namespace qkv::train
