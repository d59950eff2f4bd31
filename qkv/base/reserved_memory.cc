#include "qkv/base/reserved_memory.h"

#include <sys/mman.h>

#include <new>

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

}  // namespace

ReservedMemory::ReservedMemory(size_t bytes) : bytes_(whole_pages(bytes)), outer_(innermost) {
  memory_ = map(2 * bytes_);
  ::munmap(static_cast<std::byte*>(memory_) + bytes_, bytes_);
  innermost = this;
}

ReservedMemory::~ReservedMemory() {
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
