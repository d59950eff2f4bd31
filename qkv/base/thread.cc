#include "qkv/base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace qkv {

std::thread start_thread(std::function<void()> body) {
  // A new thread inherits the signal mask of its creator.
  struct Masked {
    Masked() {
      sigset_t blocked;
      ::sigfillset(&blocked);
      for (const int open : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF, SIGVTALRM})
        ::sigdelset(&blocked, open);
      ::pthread_sigmask(SIG_SETMASK, &blocked, &before);
    }
    ~Masked() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before{};
  };
  const Masked masked;  // restored also if the system refuses to create a thread
  return std::thread(std::move(body));
}

}  // namespace qkv
