#pragma once
// Stopping long computations on request.

#include <atomic>

#include "qkv/base/error.h"

namespace qkv {

// Thrown by a computation that was stopped and has no result.
class Stopped : public Error {
 public:
  Stopped() : Error("stopped on request") {}
};

// Throws Stopped if the flag is set; null is never set.
inline void throw_if_stopped(const std::atomic<bool>* stop) {
  if (stop && *stop) throw Stopped();
}

}  // namespace qkv
