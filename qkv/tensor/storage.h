#pragma once
// Memory of tensors: blocks from a caching allocator, or memory owned elsewhere (a mapped file).

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace qkv {

// A block of memory, freed with the last tensor that uses it. Allocated blocks are aligned to 64 bytes.
using Storage = std::shared_ptr<std::byte>;

// The purpose of an allocation.
enum class MemoryUse {
  activations,  // results of operations; everything not labelled otherwise
  weights,
  gradients,  // of parameters
  optimizer,  // moments and averages
  packed,     // weights repacked into the layout that products read
  scratch,    // kernels' scratch, and temporaries of a single operation
};
inline constexpr size_t kMemoryUses = 6;
const char* name_of(MemoryUse use);

// During its lifetime, allocations of this thread count as `use`.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryUse use);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryUse outer_;
};

// During its lifetime, when an allocation of this thread finds no free block, the free blocks are returned to
// the operating system first if they are more than those in use: batches of ever other sizes take one
// another's memory. For inference; a training step would return what the next one needs.
class InferenceMemory {
 public:
  InferenceMemory();
  ~InferenceMemory();
  InferenceMemory(const InferenceMemory&) = delete;
  InferenceMemory& operator=(const InferenceMemory&) = delete;

 private:
  bool outer_;
};

// A block of at least `bytes`, uninitialised. Gradients share blocks. Throws std::bad_alloc.
Storage allocate(size_t bytes);

// Freed blocks are cached and reused, so that a training loop soon makes no system calls and no page faults.
// All counts are of the whole process.
struct AllocatorStats {
  size_t in_use = 0;             // bytes in live blocks
  size_t peak_in_use = 0;        // maximum of in_use since reset_peak()
  size_t cached = 0;             // bytes kept for reuse
  uint64_t system_requests = 0;  // blocks requested from the operating system
  // in_use by MemoryUse, now and at the peak.
  std::array<size_t, kMemoryUses> in_use_for{}, at_peak{};
};

AllocatorStats allocator_stats();
void reset_allocator_peak();
// Returns the cached blocks to the operating system.
void release_cached_memory();

}  // namespace qkv
