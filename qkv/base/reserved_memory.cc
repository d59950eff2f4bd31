#include "qkv/base/reserved_memory.h"

#include <sys/mman.h>

#include <new>
#include <utility>

#include "qkv/base/per_thread.h"

namespace qkv {
namespace {

constinit thread_local ReservedMemory* innermost = nullptr;

void* map(size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}

// The system maps whole pages; one half of a mapping must begin at one.
size_t whole_pages(size_t bytes) {
  constexpr size_t kPage = size_t{64} << 10;  // the largest of Linux
  if (bytes > (size_t{1} << 62)) throw std::bad_alloc();
  return bytes == 0 ? kPage : (bytes + kPage - 1) / kPage * kPage;
}

// The reservation that a thread keeps for its next one.
struct Kept {
  static constexpr size_t kMost = size_t{4} << 20;

  Kept() = default;
  ~Kept() {
    if (memory) ::munmap(memory, bytes);
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  void* memory = nullptr;
  size_t bytes = 0;
};

}  // namespace

ReservedMemory::ReservedMemory(size_t bytes) : bytes_(whole_pages(bytes)), outer_(innermost) {
  Kept& kept = per_thread<Kept>();
  if (kept.memory && kept.bytes >= bytes_) {
    bytes_ = kept.bytes;
    memory_ = std::exchange(kept.memory, nullptr);
  } else {
    memory_ = map(2 * bytes_);
    ::munmap(static_cast<std::byte*>(memory_) + bytes_, bytes_);
  }
  innermost = this;
}

ReservedMemory::~ReservedMemory() {
  Kept& kept = per_thread<Kept>();
  if (memory_ && bytes_ <= Kept::kMost && (!kept.memory || kept.bytes < bytes_)) {
    std::swap(kept.memory, memory_);
    std::swap(kept.bytes, bytes_);
  }
  if (memory_) ::munmap(memory_, bytes_);
  innermost = outer_;
}

bool release_reserved_memory() noexcept {
  for (ReservedMemory* one = innermost; one; one = one->outer_) {
    if (!one->memory_) continue;
    ::munmap(one->memory_, one->bytes_);
    one->memory_ = nullptr;
    return true;
  }
  return false;
}

}  // namespace qkv
