#pragma once
// The order of work on the reference device.

#include <functional>
#include <mutex>
#include <vector>

namespace qkv::kernels::reference {

// Kernels, copies and freed blocks, in the order of submission. Normally each runs at once. While queued, as
// on a GPU, work only runs at synchronise(), on another thread: code that reads a result early finds the NaN
// of new memory.
class Stream {
 public:
  void submit(std::function<void()> work);
  // Runs what was submitted before, and waits for it. Throws what the work threw; work behind it is dropped.
  void synchronise();

  // Synchronises, then changes the mode of the process. For tests.
  void set_queued(bool queued);

 private:
  std::mutex running_;  // held while work runs, so that work of two threads keeps its order
  std::mutex mutex_;    // of what follows
  bool queued_ = false;
  std::vector<std::function<void()>> work_;
};

Stream& stream();

}  // namespace qkv::kernels::reference
