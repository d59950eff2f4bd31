#include "apps/stop.h"

#include <csignal>

namespace qkv::apps {
namespace {

std::atomic<bool> stop_requested = false;
volatile std::sig_atomic_t received_signal = 0;
static_assert(std::atomic<bool>::is_always_lock_free);

void request_stop(int signal) {
  received_signal = signal;
  stop_requested = true;
  std::signal(signal, SIG_DFL);
}

}  // namespace

StopSignals::StopSignals() {
  stop_requested = false;
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
}

StopSignals::~StopSignals() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

const std::atomic<bool>* StopSignals::flag() const { return &stop_requested; }

int StopSignals::exit_status() const { return 128 + received_signal; }

}  // namespace qkv::apps
