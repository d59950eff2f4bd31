#include "qkv/tensor/storage.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace qkv {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;

// Four size classes per power of two: at most a quarter of a block is unused, and batches of slightly
// different lengths reuse each other's blocks.
size_t size_class(size_t bytes) {
  if (bytes <= 256) return 256;
  const size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

struct Block {
  std::byte* memory = nullptr;
  size_t bytes = 0;
};

thread_local MemoryUse current_use = MemoryUse::activations;

class CachingAllocator {
 public:
  // Reuses a free block of up to 1.5 times the size: with exact matches, each number of tokens in a batch
  // would build up its own stock of blocks.
  Block take(size_t bytes, MemoryUse use) {
    const std::lock_guard lock(mutex_);
    Block block;
    const auto kept = free_.lower_bound(bytes);
    if (kept != free_.end() && kept->first <= bytes + bytes / 2) {
      block = {kept->second.back(), kept->first};
      kept->second.pop_back();
      if (kept->second.empty()) free_.erase(kept);
      stats_.cached -= block.bytes;
    } else {
      block = {request(bytes), bytes};
    }
    stats_.in_use += block.bytes;
    stats_.in_use_for[static_cast<size_t>(use)] += block.bytes;
    if (stats_.in_use > stats_.peak_in_use) set_peak();
    return block;
  }

  void give(Block block, MemoryUse use) {
    const std::lock_guard lock(mutex_);
    free_[block.bytes].push_back(block.memory);
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
    for (auto& [bytes, blocks] : free_) {
      for (std::byte* block : blocks) std::free(block);
    }
    free_.clear();
    stats_.cached = 0;
  }

  std::mutex mutex_;
  std::map<size_t, std::vector<std::byte*>> free_;  // by size; no list is empty
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
  const Block block = allocator().take(size_class(bytes), use);
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
