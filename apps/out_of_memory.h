#pragma once
// The program's answer to failed allocations.

namespace qkv::apps {

// From now on an allocation that fails within a library for which memory was reserved (ReservedMemory) is
// repeated; any other throws std::bad_alloc. If a library does not let that exception through, the process
// ends with a message and status 1. If the address space is limited, all threads allocate from one heap.
// A library that ends the process after a failed allocation (SentencePiece's checks) ends it so too.
void handle_out_of_memory();

// For main(): from now on exit() is the program's own.
int returned(int status);

}  // namespace qkv::apps
