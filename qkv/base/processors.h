#pragma once
// How many processors this process may use.

#include <filesystem>
#include <optional>

namespace qkv {

// The processors of the affinity mask (sched_setaffinity, taskset, cpusets), or fewer where a CPU quota of
// the process's cgroups (docker run --cpus) is less: a quota of one and a half processors counts as two. At
// least 1.
int available_processors();

// The least CPU quota of the process's cgroups and their parents, in processors, of version 1 or 2; none
// without one. `root` has proc/self/cgroup and sys/fs/cgroup (tests give another).
std::optional<double> cgroup_processors(const std::filesystem::path& root = "/");

}  // namespace qkv
