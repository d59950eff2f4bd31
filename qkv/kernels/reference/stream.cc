#include "qkv/kernels/reference/stream.h"

#include <exception>
#include <thread>
#include <utility>

namespace qkv::kernels::reference {

void Stream::submit(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (queued_) {
      work_.push_back(std::move(work));
      return;
    }
  }
  work();
}

void Stream::synchronise() {
  const std::lock_guard one_at_a_time(running_);
  std::vector<std::function<void()>> work;
  {
    const std::lock_guard lock(mutex_);
    work.swap(work_);
  }
  if (work.empty()) return;
  std::exception_ptr error;
  std::thread([&] {
    try {
      for (const std::function<void()>& one : work) one();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

void Stream::set_queued(bool queued) {
  synchronise();
  const std::lock_guard lock(mutex_);
  queued_ = queued;
}

Stream& stream() {
  static auto* instance =
      new Stream;  // never destroyed: static tensors may be freed after main() has returned
  return *instance;
}

}  // namespace qkv::kernels::reference
