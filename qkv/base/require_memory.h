#pragma once
// A memory check before calls of libraries that do not handle failed allocations.

#include <cstddef>

namespace qkv {

// Throws std::bad_alloc if the process cannot allocate this much more memory now; keeps nothing. For calls of
// libraries that crash if an allocation fails (oneDNN 2.7 does not check the memory of its machine code,
// protobuf throws in destructors) and that use less than this.
void require_memory(size_t bytes);

}  // namespace qkv
