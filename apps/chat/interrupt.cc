#include "apps/chat/interrupt.h"

namespace qkv::apps {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void interrupt(int /*signal*/) { interrupted = true; }

}  // namespace

Interrupt::Interrupt() {
  clear();
  struct sigaction action = {};
  action.sa_handler = interrupt;  // without SA_RESTART, so that read() returns
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_);
}

Interrupt::~Interrupt() { sigaction(SIGINT, &before_, nullptr); }

bool Interrupt::pending() { return interrupted; }
void Interrupt::clear() { interrupted = false; }

}  // namespace qkv::apps
