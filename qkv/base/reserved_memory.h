#pragma once
// Memory kept for libraries that crash if an allocation fails.

#include <cstddef>

namespace qkv {

// Gives the innermost ReservedMemory of the calling thread back to the system; false if there is none left.
// For a program's handler (std::set_new_handler), which returns if this is true: the allocation is repeated.
// Without such a handler the reservation has no effect beyond the check of its constructor.
bool release_reserved_memory() noexcept;

// Memory reserved while it lives, for calls of libraries on this thread that do not handle failed
// allocations (protobuf, within SentencePiece, throws in destructors; oneDNN 2.6 does not check its machine
// code). `bytes` is more than the call uses.
class ReservedMemory {
 public:
  // Throws std::bad_alloc if the process cannot allocate twice `bytes` now: the reservation, and as much for
  // allocations that are not made by operator new. The thread keeps a reservation of up to 4 MiB for its next
  // ones, as a short text is tokenized in less time than the system needs to map and unmap it.
  explicit ReservedMemory(size_t bytes);
  ~ReservedMemory();
  ReservedMemory(const ReservedMemory&) = delete;
  ReservedMemory& operator=(const ReservedMemory&) = delete;

 private:
  friend bool release_reserved_memory() noexcept;

  void* memory_;  // null: released
  size_t bytes_;
  ReservedMemory* outer_;
};

}  // namespace qkv
