#pragma once
// A profile with what it is held against: for people as a table, for programs as JSON.

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
  // Takes down the profile and the peak of memory as they are now, then measures the machine's limits (half a
  // second).
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
