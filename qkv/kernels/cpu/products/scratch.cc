#include "qkv/kernels/cpu/products/scratch.h"

#include <array>

#include "qkv/base/per_thread.h"
#include "qkv/tensor/storage.h"

namespace qkv::kernels {
namespace {

// Grown as needed.
struct Buffers {
  struct Buffer {
    Storage memory;
    size_t bytes = 0;
  };
  std::array<Buffer, kScratchUses> of_use;
};

}  // namespace

void* scratch(Scratch use, size_t bytes) {
  Buffers::Buffer& buffer = per_thread<Buffers>().of_use[static_cast<size_t>(use)];
  if (buffer.bytes < bytes) {
    const MemoryScope memory(MemoryUse::scratch);
    buffer = {allocate(bytes), bytes};
  }
  return buffer.memory.get();
}

}  // namespace qkv::kernels
