#pragma once
// The library's own threads.

#include <functional>
#include <thread>

namespace qkv {

// Starts a thread that blocks all signals, which are left to the program's own threads. Throws
// std::system_error if the thread cannot be created.
std::thread start_thread(std::function<void()> body);

}  // namespace qkv
