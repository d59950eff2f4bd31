#pragma once
// Memory for tensors: blocks from a caching allocator, or memory that something else owns (a mapped file).

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace qkv {

// A block of memory, freed when the last tensor that uses it goes. Allocated blocks are aligned to 64 bytes.
using Storage = std::shared_ptr<std::byte>;

// What memory is for.
enum class MemoryUse {
  activations,  // what operations compute; all that is not said to be something else
  weights,
  gradients,  // of parameters
  optimizer,  // moments and averages
  packed,     // weights again, in the order in which products read them
  scratch,    // of kernels, and what lives no longer than one operation
};
inline constexpr size_t kMemoryUses = 6;
const char* name_of(MemoryUse use);

// While it lives, what this thread allocates is for `use`.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryUse use);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryUse outer_;
};

// A block of at least `bytes`, uninitialised. Throws std::bad_alloc.
Storage allocate(size_t bytes);

// Freed blocks are kept and handed out again, so that a training loop soon makes no system calls and takes no
// page faults. All counts are of the whole process.
struct AllocatorStats {
  size_t in_use = 0;             // bytes in live blocks
  size_t peak_in_use = 0;        // the most that in_use has been since reset_peak()
  size_t cached = 0;             // bytes kept for reuse
  uint64_t system_requests = 0;  // blocks that had to be asked of the operating system
  // in_use by MemoryUse, and what peak_in_use was made of.
  std::array<size_t, kMemoryUses> in_use_for{}, at_peak{};
};

AllocatorStats allocator_stats();
void reset_allocator_peak();
// Gives the kept blocks back to the operating system.
void release_cached_memory();

}  // namespace qkv
