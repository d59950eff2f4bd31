#pragma once
// A message for SIGBUS, which ends the program when a mapped file is truncated while it is in use.

namespace qkv::apps {

// From now on the signal prints the file before it ends the program. No effect with sanitizers, which have
// handlers of their own.
void explain_bus_errors();

}  // namespace qkv::apps
