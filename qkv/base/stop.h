#pragma once
// Stopping lengthy work on request.

#include <atomic>

#include "qkv/base/error.h"

namespace qkv {

// Thrown by work that was asked to stop and has no result to return.
class Stopped : public Error {
 public:
  Stopped() : Error("stopped on request") {}
};

// Throws Stopped if the flag is set; null is a flag that is never set.
inline void throw_if_stopped(const std::atomic<bool>* stop) {
  if (stop && *stop) throw Stopped();
}

}  // namespace qkv
