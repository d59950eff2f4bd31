#pragma once
// `qkv train` as one of the processes of mpirun or srun.

#include <functional>

#include "qkv/base/communicator.h"

namespace qkv::apps {

// Runs `body` with the ranks of this process's launch, or alone. If it throws, all ranks end, and the message
// names this one. A rank that does not answer for `timeout` seconds ends all likewise.
void with_ranks(double timeout, const std::function<void(Communicator&)>& body);

}  // namespace qkv::apps
