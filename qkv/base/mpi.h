#pragma once
// Ranks that mpirun or srun has started.

#include <functional>
#include <memory>
#include <string>

#include "qkv/base/communicator.h"

namespace qkv {

// The number of processes of which a launcher has started this one, by the launcher's environment variables;
// 1: none has. `get` is like getenv(), which is the default.
int launched_processes(const std::function<const char*(const char*)>& get = {});
// Likewise those on this host.
int launched_on_host(const std::function<const char*(const char*)>& get = {});
// Whether the launcher has given this process processors of its own.
bool bound_by_launcher(const std::function<const char*(const char*)>& get = {});

struct MpiOptions {
  // Seconds without an answer after which a rank counts as lost and the run ends.
  double timeout = 30;
  // Called with a message, on any thread, before a lost rank or a failure of MPI ends this process.
  std::function<void(const std::string&)> on_lost = {};
};

// The ranks of this process's launch. Loads libqkv_mpi.so, which is beside the program or in ../lib/qkv (or
// at QKV_MPI_PLUGIN). Once a process. Each rank signals to the root, and the root to each, that it is alive.
// Throws UsageError without that library or if MPI knows of fewer processes than the launcher; RankError if
// MPI does not start.
std::unique_ptr<Communicator> open_mpi_ranks(const MpiOptions& options);

}  // namespace qkv
