#include "qkv/base/require_memory.h"

#include <sys/mman.h>

#include <new>

namespace qkv {

void require_memory(size_t bytes) {
  void* const room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  ::munmap(room, bytes);
}

}  // namespace qkv
