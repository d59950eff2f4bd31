#pragma once
// Threads of the library's own.

#include <functional>
#include <thread>

namespace qkv {

// A thread that takes no signals: those are for the program's own threads. Throws std::system_error where the
// system refuses another one.
std::thread start_thread(std::function<void()> body);

}  // namespace qkv
