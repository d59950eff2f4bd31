#pragma once
// A look ahead, for libraries that do not expect to be refused memory.

#include <cstddef>

namespace qkv {

// Throws std::bad_alloc if the process could not get this much more memory now. Nothing is kept: it is for
// calls of libraries that crash where an allocation fails (oneDNN 2.7 does not check the memory of its
// machine code, protobuf throws in destructors), and which use less than this.
void require_memory(size_t bytes);

}  // namespace qkv
