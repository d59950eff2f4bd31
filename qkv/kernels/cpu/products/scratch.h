#pragma once
// Scratch memory of products.

#include <cstddef>
#include <cstdint>

namespace qkv::kernels {

enum class Scratch {
  left,
  right,
  result,
  turned,
  tile,     // weights in place: a block of columns
  widened,  // weights in place: columns of blocks, as f32
  rows,     // int8: rows before they are put into tiles
  library,  // oneDNN's own
};
inline constexpr size_t kScratchUses = 8;

// Memory of the calling thread for this use, with any content; valid until the next call for the use.
void* scratch(Scratch use, size_t bytes);

template <class T>
T* scratch(Scratch use, int64_t count) {
  return static_cast<T*>(scratch(use, static_cast<size_t>(count) * sizeof(T)));
}

}  // namespace qkv::kernels
