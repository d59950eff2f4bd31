#pragma once
// Pinned memory for copies to the device. From other memory of the host, the driver may wait for the stream
// before it copies (CUDA Runtime API, "API synchronization behavior").

#include <cstddef>
#include <functional>
#include <utility>

namespace qkv::kernels::cuda {

// Slices that are filled one after the other, and again from the first. Used by one thread at a time.
class StagingRing {
 public:
  static constexpr size_t kSlices = 8, kSliceBytes = size_t{1} << 20;

  // memory: kSlices * kSliceBytes. mark(slice) is called behind the last copy from a slice, wait(slice)
  // before it is filled again, and returns when the copies before its mark have ended.
  StagingRing(std::byte* memory, std::function<void(size_t)> mark, std::function<void(size_t)> wait)
      : memory_(memory), mark_(std::move(mark)), wait_(std::move(wait)) {}

  // Room for at most kSliceBytes, from which the caller submits a copy before the next call.
  std::byte* take(size_t bytes) {
    constexpr size_t kAlignment = 16;
    if (used_ + bytes > kSliceBytes) {
      mark_(slice_);
      slice_ = (slice_ + 1) % kSlices;
      used_ = 0;
      all_marked_ = all_marked_ || slice_ == 0;
      if (all_marked_) wait_(slice_);
    }
    std::byte* const room = memory_ + slice_ * kSliceBytes + used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return room;
  }

 private:
  std::byte* memory_;
  std::function<void(size_t)> mark_, wait_;
  size_t slice_ = 0, used_ = 0;
  bool all_marked_ = false;
};

}  // namespace qkv::kernels::cuda
