#pragma once
// The library's own threads.

#include <functional>
#include <thread>

namespace qkv {

// Starts a thread that leaves signals to the program's threads: it blocks all signals except those raised by
// its own code (SIGSEGV, SIGBUS, SIGFPE, ...), for crash handlers, and those of profiling timers (SIGPROF,
// SIGVTALRM). Throws std::system_error or std::bad_alloc if the thread cannot be created.
std::thread start_thread(std::function<void()> body);

}  // namespace qkv
