#pragma once
// A command as one of the processes of mpirun or srun.

#include <functional>

#include "qkv/base/communicator.h"

namespace qkv::apps {

// Runs `body` with the ranks of this process's launch, or alone. If it throws on a rank, that rank prints the
// message, with its name unless it is the root, and all processes end. They also end if a rank sends no sign
// of life for `timeout` seconds.
void with_ranks(double timeout, const std::function<void(Communicator&)>& body);

}  // namespace qkv::apps
