#include "apps/profile_report.h"

#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "qkv/base/error.h"

namespace qkv::apps {
namespace {

size_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;  // Linux counts in kB
}

Profile::Entry total_of(const std::vector<Profile::Entry>& entries, double seconds) {
  Profile::Entry total;
  total.operation = "total";
  total.seconds = seconds;
  for (const Profile::Entry& entry : entries) {
    total.macs += entry.macs;
    total.bytes += entry.bytes;
  }
  return total;
}

nlohmann::ordered_json json_of(const Profile::Entry& entry, double seconds,
                               const kernels::MachineLimits& limits) {
  nlohmann::ordered_json result = {{"operation", entry.operation}};
  if (!entry.module.empty()) result["module"] = entry.module;
  result.update({{"direction", entry.backward ? "backward" : "forward"},
                 {"calls", entry.calls},
                 {"seconds", entry.seconds},
                 {"share", entry.seconds / seconds},
                 {"macs", entry.macs},
                 {"bytes", entry.bytes},
                 {"gflops", entry.gflops()},
                 {"of_peak", entry.gflops() / limits.gflops},
                 {"gb_per_s", entry.gb_per_s()},
                 {"of_bandwidth", entry.gb_per_s() / limits.bandwidth()}});
  return result;
}

constexpr const char* kNote =
    "GFLOP/s: two per required multiply-accumulate. GB/s: each input and output counted once;\n"
    "above 100 % of the memory bandwidth, data came from a cache. cross_entropy includes the\n"
    "output projection, and its gradients in its forward run.\n";

}  // namespace

ProfileReport::ProfileReport(const Profile& profile)
    : seconds_(profile.seconds()),
      operations_(profile.operations()),
      modules_(profile.entries()),
      memory_(allocator_stats()),
      resident_(peak_resident_bytes()),
      limits_(kernels::measure_limits()) {}

std::string ProfileReport::text(const Style& style) const {
  std::vector<std::vector<std::string>> rows = {
      {"operation", "calls", "seconds", "share", "GFLOP/s", "of peak", "GB/s", "of bandwidth"}};
  const auto add = [&](const Profile::Entry& entry) {
    const bool multiplies = entry.macs > 0, moves = entry.bytes > 0;
    rows.push_back({entry.operation + (entry.backward ? ", backward" : ""),
                    entry.calls > 0 ? grouped(entry.calls) : "", fixed(entry.seconds, 3),
                    percent(entry.seconds / seconds_), multiplies ? fixed(entry.gflops(), 1) : "",
                    multiplies ? percent(entry.gflops() / limits_.gflops) : "",
                    moves ? fixed(entry.gb_per_s(), 1) : "",
                    moves ? percent(entry.gb_per_s() / limits_.bandwidth()) : ""});
  };
  for (const Profile::Entry& entry : operations_) add(entry);
  add(total_of(operations_, seconds_));

  std::vector<std::vector<std::string>> memory;
  for (size_t i = 0; i < kMemoryUses; ++i) {
    if (memory_.at_peak[i] == 0) continue;  // such as weights mapped from their file
    memory.push_back({std::string("  ") + name_of(static_cast<MemoryUse>(i)),
                      bytes_text(static_cast<int64_t>(memory_.at_peak[i]))});
  }
  memory.push_back({"  total", bytes_text(static_cast<int64_t>(memory_.peak_in_use))});
  memory.push_back({"  the process", bytes_text(static_cast<int64_t>(resident_))});
  return concat(style.bold("time by operation"), " (", limits_.threads,
                limits_.threads == 1 ? " thread" : " threads", "; peak ", fixed(limits_.gflops, 0),
                " GFLOP/s, memory ", fixed(limits_.bandwidth(), 1), " GB/s)\n", table_text(rows),
                style.dim(kNote), style.bold("peak memory"), '\n', table_text(memory));
}

nlohmann::ordered_json ProfileReport::json() const {
  nlohmann::ordered_json result = {{"seconds", seconds_},
                                   {"threads", limits_.threads},
                                   {"peak_gflops", limits_.gflops},
                                   {"bandwidth_gb_per_s", limits_.bandwidth()},
                                   {"total", json_of(total_of(operations_, seconds_), seconds_, limits_)}};
  for (const Profile::Entry& entry : operations_)
    result["operations"].push_back(json_of(entry, seconds_, limits_));
  for (const Profile::Entry& entry : modules_) result["modules"].push_back(json_of(entry, seconds_, limits_));
  for (size_t i = 0; i < kMemoryUses; ++i)
    result["peak_memory"][name_of(static_cast<MemoryUse>(i))] = memory_.at_peak[i];
  result["peak_memory"]["all"] = memory_.peak_in_use;
  result["peak_memory"]["process"] = resident_;
  return result;
}

}  // namespace qkv::apps
