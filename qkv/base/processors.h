#pragma once
// The number of processors that this process may use.

#include <filesystem>
#include <optional>

namespace qkv {

// The number of processors in the affinity mask (sched_setaffinity, taskset, cpusets), or the CPU quota of
// the process's cgroups (docker run --cpus), rounded up, if that is smaller. At least 1.
int available_processors();

// The smallest CPU quota of the process's cgroups (version 1 or 2) and their parents, in processors; none
// without quotas. `root` contains proc/self/cgroup and sys/fs/cgroup (tests pass another).
std::optional<double> cgroup_processors(const std::filesystem::path& root = "/");

}  // namespace qkv
