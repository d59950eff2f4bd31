#pragma once
// A profile compared with the machine's peak rates: as a table, or as JSON.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/terminal.h"
#include "qkv/kernels/limits.h"
#include "qkv/ops/profile.h"
#include "qkv/tensor/storage.h"

namespace qkv::apps {

class ProfileReport {
 public:
  // Records the current profile and memory peak, then measures the machine's peak rates (half a second).
  explicit ProfileReport(const Profile& profile);

  std::string text(const Style& style) const;
  nlohmann::ordered_json json() const;

 private:
  double seconds_;
  std::vector<Profile::Entry> operations_, modules_;
  AllocatorStats memory_;
  size_t resident_;  // the process's peak, in bytes
  kernels::MachineLimits limits_;
};

}  // namespace qkv::apps
