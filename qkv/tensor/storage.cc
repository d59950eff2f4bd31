#include "qkv/tensor/storage.h"

#include <sys/mman.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>

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

class CachingAllocator {
 public:
  // Reuses a free block of up to 1.5 times the size: with exact matches, each number of tokens in a batch
  // would build up its own stock of blocks.
  Block take(size_t bytes, MemoryUse use) {
    const std::lock_guard lock(mutex_);
    Block block = kept(bytes);
    if (block.memory) {
      stats_.cached -= block.bytes;
    } else {
      block = {request(bytes), bytes};
    }
    stats_.in_use += block.bytes;
    stats_.in_use_for[static_cast<size_t>(use)] += block.bytes;
    if (stats_.in_use > stats_.peak_in_use) set_peak();
    return block;
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

  Block kept(size_t bytes) {
    for (size_t size = bytes; size <= bytes + bytes / 2; size = class_bytes(size + 1)) {
      FreeBlocks& blocks = free_[class_index(size)];
      if (!blocks.empty()) return {blocks.pop(), size};
    }
    return {};
  }

  std::byte* request(size_t bytes) {
    ++stats_.system_requests;
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

}  // namespace

Storage allocate(size_t bytes) {
  const MemoryUse use = current_use;
  const Block block = allocator().take(class_bytes(bytes), use);
  return {block.memory, [block, use](std::byte*) { allocator().give(block, use); }};
}

MemoryScope::MemoryScope(MemoryUse use) : outer_(current_use) { current_use = use; }
MemoryScope::~MemoryScope() { current_use = outer_; }

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
