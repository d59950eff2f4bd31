#pragma once
// The library's own threads.

#include <functional>
#include <thread>

namespace qkv {

// Starts a thread that leaves signals to the program's own threads. It blocks all but those that its own code
// raises (SIGSEGV, SIGBUS, SIGFPE, ...), which a crash handler wants to see, and the profiling timers'
// (SIGPROF, SIGVTALRM). Throws std::system_error or std::bad_alloc if the thread cannot be created.
std::thread start_thread(std::function<void()> body);

}  // namespace qkv
