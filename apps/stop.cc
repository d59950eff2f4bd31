#include "apps/stop.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>

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
  // A closed terminal stops a run like SIGTERM, except under nohup.
  if (std::signal(SIGHUP, request_stop) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

StopSignals::~StopSignals() {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  if (std::signal(SIGHUP, SIG_DFL) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

const std::atomic<bool>* StopSignals::flag() const { return &stop_requested; }

int StopSignals::exit_status() const { return 128 + received_signal; }

void end_at_once(int status) {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace qkv::apps
