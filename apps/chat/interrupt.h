#pragma once
// Ctrl-C in a conversation: it ends an answer or a line, not the program.

#include <atomic>
#include <csignal>

namespace qkv::apps {

// During its lifetime SIGINT sets the flag, and ends a read() from the terminal. Only one object at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static bool pending();
  static void clear();

 private:
  struct sigaction before_ = {};
};

}  // namespace qkv::apps
