#include "qkv/tensor/storage.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace qkv {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallest = 256;

// Four size classes per power of two: at most a quarter of a block is unused, and batches of slightly
// different lengths reuse each other's blocks.
size_t class_bytes(size_t bytes) {
  if (bytes <= kSmallest) return kSmallest;
  const size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

constexpr size_t kClasses = 4 * 56;

// The index of the size class of `bytes`, from the smallest.
size_t class_index(size_t bytes) {
  const size_t power = std::bit_floor(bytes - 1);
  return 4 * static_cast<size_t>(std::countr_zero(power) - std::countr_zero(kSmallest / 2)) +
         (bytes - 1 - power) / (power / 4) - 3;
}

// The size of a class, the inverse of class_index().
size_t bytes_of_class(size_t index) {
  const size_t power = (kSmallest / 2) << ((index + 3) / 4);
  return power + ((index + 3) % 4 + 1) * (power / 4);
}

struct Block {
  std::byte* memory = nullptr;
  size_t bytes = 0;
};

// A stack of free blocks of one class, linked through their own memory: freeing a block must not allocate,
// because a destructor cannot report a failure.
class FreeBlocks {
 public:
  bool empty() const { return !first_; }
  void push(std::byte* memory) { first_ = ::new (memory) Link{first_}; }
  std::byte* pop() {
    Link* const link = first_;
    first_ = link->next;
    return reinterpret_cast<std::byte*>(link);
  }

 private:
  struct Link {
    Link* next;
  };
  Link* first_ = nullptr;
};

thread_local MemoryUse current_use = MemoryUse::activations;
thread_local bool keeps_few_blocks = false;

class CachingAllocator {
 public:
  // Reuses a free block of up to 1.5 times the size: with exact matches, each number of tokens in a batch
  // would build up its own stock of blocks.
  Block take(size_t bytes, MemoryUse use) {
    const std::lock_guard lock(mutex_);
    Block block = kept(bytes);
    const bool found = block.memory != nullptr;
    if (!found) block = {request(bytes), bytes};
    count_in(block, use, found);
    return block;
  }

  // The largest free block of `bytes` to `most`, if there is one. Both are sizes of classes.
  Block take_largest(size_t bytes, size_t most, MemoryUse use) {
    const std::lock_guard lock(mutex_);
    for (size_t index = class_index(most) + 1; index-- > class_index(bytes);) {
      if (free_[index].empty()) continue;
      const Block block{free_[index].pop(), bytes_of_class(index)};
      count_in(block, use, true);
      return block;
    }
    return {};
  }

  void give(Block block, MemoryUse use) noexcept {
    const std::lock_guard lock(mutex_);
    free_[class_index(block.bytes)].push(block.memory);
    stats_.in_use -= block.bytes;
    stats_.in_use_for[static_cast<size_t>(use)] -= block.bytes;
    stats_.cached += block.bytes;
  }

  void release() {
    const std::lock_guard lock(mutex_);
    release_locked();
  }

  AllocatorStats stats() {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    set_peak();
  }

 private:
  void set_peak() {
    stats_.peak_in_use = stats_.in_use;
    stats_.at_peak = stats_.in_use_for;
  }

  void count_in(Block block, MemoryUse use, bool was_cached) {
    if (was_cached) stats_.cached -= block.bytes;
    stats_.in_use += block.bytes;
    stats_.in_use_for[static_cast<size_t>(use)] += block.bytes;
    if (stats_.in_use > stats_.peak_in_use) set_peak();
  }

  Block kept(size_t bytes) {
    for (size_t size = bytes; size <= bytes + bytes / 2; size = class_bytes(size + 1)) {
      FreeBlocks& blocks = free_[class_index(size)];
      if (!blocks.empty()) return {blocks.pop(), size};
    }
    return {};
  }

  std::byte* request(size_t bytes) {
    ++stats_.system_requests;
    if (keeps_few_blocks && stats_.cached > stats_.in_use) release_locked();
    const size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* block = nullptr;
    if (::posix_memalign(&block, alignment, rounded) != 0) {
      release_locked();
      if (::posix_memalign(&block, alignment, rounded) != 0) throw std::bad_alloc();
    }
    if (bytes >= kHugePage) ::madvise(block, rounded / kHugePage * kHugePage, MADV_HUGEPAGE);
    return static_cast<std::byte*>(block);
  }

  void release_locked() {
    for (FreeBlocks& blocks : free_) {
      while (!blocks.empty()) std::free(blocks.pop());
    }
    stats_.cached = 0;
  }

  std::mutex mutex_;
  std::array<FreeBlocks, kClasses> free_;
  AllocatorStats stats_;
};

// Never destroyed: static tensors may be freed after main() has returned.
CachingAllocator& allocator() {
  static auto* instance = new CachingAllocator;
  return *instance;
}

Storage owned(Block block, MemoryUse use) {
  return {block.memory, [block, use](std::byte*) { allocator().give(block, use); }};
}

// Parameters' gradients live from their product in the backward pass to the optimizer's step, while blocks of
// activations are free, which have other sizes. So several gradients share such a block, which is free again
// after the last of them. Training of BERT's base size needs 270 MB less of 2,990 for it.
class SharedBlock {
 public:
  // Memory of the block that is in use, or of another; undefined if no free block is large enough.
  Storage take(size_t bytes, MemoryUse use) {
    constexpr size_t kMost = size_t{64} << 20;
    Storage block;  // outlives the lock: giving it back locks the allocator
    const std::lock_guard lock(mutex_);
    block = block_.lock();
    if (!block || bytes > bytes_ - used_) {
      const Block found = allocator().take_largest(class_bytes(bytes), kMost, use);
      if (!found.memory) return {};
      block = owned(found, use);
      block_ = block;
      bytes_ = found.bytes;
      used_ = 0;
    }
    std::byte* const memory = block.get() + used_;
    used_ = std::min(bytes_, (used_ + bytes + kAlignment - 1) / kAlignment * kAlignment);
    return {std::move(block), memory};
  }

 private:
  std::mutex mutex_;
  std::weak_ptr<std::byte> block_;
  size_t bytes_ = 0, used_ = 0;
};

SharedBlock& block_of_gradients() {
  static auto* instance = new SharedBlock;  // never destroyed, as the allocator
  return *instance;
}

}  // namespace

Storage allocate(size_t bytes) {
  const MemoryUse use = current_use;
  if (use == MemoryUse::gradients) {
    if (Storage memory = block_of_gradients().take(bytes, use)) return memory;
  }
  return owned(allocator().take(class_bytes(bytes), use), use);
}

MemoryScope::MemoryScope(MemoryUse use) : outer_(current_use) { current_use = use; }
MemoryScope::~MemoryScope() { current_use = outer_; }

InferenceMemory::InferenceMemory() : outer_(keeps_few_blocks) { keeps_few_blocks = true; }
InferenceMemory::~InferenceMemory() { keeps_few_blocks = outer_; }

const char* name_of(MemoryUse use) {
  switch (use) {
    case MemoryUse::activations:
      return "activations";
    case MemoryUse::weights:
      return "weights";
    case MemoryUse::gradients:
      return "gradients";
    case MemoryUse::optimizer:
      return "optimizer";
    case MemoryUse::packed:
      return "packed weights";
    case MemoryUse::scratch:
      return "scratch";
  }
  return "";
}

AllocatorStats allocator_stats() { return allocator().stats(); }
void reset_allocator_peak() { allocator().reset_peak(); }
void release_cached_memory() { allocator().release(); }

}  // namespace qkv
