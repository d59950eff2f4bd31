#include "qkv/base/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace qkv {
namespace {

namespace fs = std::filesystem;

// The quota of one cgroup: "max 100000" (none) or "150000 100000" in version 2.
std::optional<double> quota_of(const fs::path& group, bool version2) {
  double quota = 0, period = 0;
  if (version2) {
    std::ifstream file(group / "cpu.max");
    if (!(file >> quota >> period)) return std::nullopt;  // "max" is not a number
  } else {
    std::ifstream(group / "cpu.cfs_quota_us") >> quota;  // -1: none
    std::ifstream(group / "cpu.cfs_period_us") >> period;
  }
  if (!(quota > 0 && period > 0)) return std::nullopt;
  return quota / period;
}

bool has_cpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string one; std::getline(list, one, ',');) {
    if (one == "cpu") return true;
  }
  return false;
}

}  // namespace

std::optional<double> cgroup_processors(const fs::path& root) {
  std::optional<double> least;
  // Lines "ID:CONTROLLERS:PATH"; version 2 has ID 0 and no controllers. A container may see the host's path,
  // which does not exist in its mount: then the mount's root has the quota.
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string id, controllers, path;
       std::getline(file, id, ':') && std::getline(file, controllers, ':') && std::getline(file, path);) {
    const bool version2 = id == "0" && controllers.empty();
    if (!version2 && !has_cpu(controllers)) continue;
    const fs::path mount = root / (version2 ? "sys/fs/cgroup" : "sys/fs/cgroup/cpu");
    for (fs::path group = fs::path(path).relative_path();; group = group.parent_path()) {
      // libstdc++ 12 crashes if memory runs out while a name is added to a path that ends in '/'.
      const std::optional<double> quota = quota_of(group.empty() ? mount : mount / group, version2);
      if (quota) least = std::min(least.value_or(*quota), *quota);
      if (group.empty()) break;
    }
  }
  return least;
}

int available_processors() {
  int count = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t mask;
  CPU_ZERO(&mask);
  // Fails on machines of more than 1,024 processors.
  if (::sched_getaffinity(0, sizeof(mask), &mask) == 0) count = CPU_COUNT(&mask);
  if (const auto quota = cgroup_processors()) count = std::min(count, static_cast<int>(std::ceil(*quota)));
  return std::max(count, 1);
}

}  // namespace qkv
