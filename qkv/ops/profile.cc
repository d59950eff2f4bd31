#include "qkv/ops/profile.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/scope.h"
#include "qkv/kernels/counters.h"

namespace qkv {
namespace {

void add(Profile::Entry& to, const Profile::Entry& from) {
  to.calls += from.calls;
  to.seconds += from.seconds;
  to.macs += from.macs;
  to.bytes += from.bytes;
}

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

Profile::Profile(Now now) : now_(now), began_(now()), settled_(began_) {
  if (active_ != nullptr) throw UsageError("a profile is already being made on this thread");
  outside_.operation = "other";
  macs_ = kernels::counted_macs();
  bytes_ = kernels::counted_bytes();
  active_ = this;
}

Profile::~Profile() { active_ = nullptr; }

double Profile::seconds() const { return seconds_between(began_, now_()); }

void Profile::settle() {
  Entry& entry = open_.empty() ? outside_ : *open_.back();
  const Clock::time_point now = now_();
  const uint64_t macs = kernels::counted_macs(), bytes = kernels::counted_bytes();
  entry.seconds += seconds_between(settled_, now);
  entry.macs += macs - macs_;
  entry.bytes += bytes - bytes_;
  settled_ = now;
  macs_ = macs;
  bytes_ = bytes;
}

void Profile::enter(const char* operation, std::string_view module, bool backward, Inside inside) {
  if (whole_) {
    ++hidden_;
    return;
  }
  settle();
  const auto [found, is_new] = entries_.try_emplace(Key{operation, module, backward});
  Entry& entry = found->second;
  if (is_new) {
    entry.operation = operation;
    entry.module = module;
    entry.backward = backward;
  }
  ++entry.calls;
  open_.push_back(&entry);
  whole_ = inside == Inside::whole;
}

void Profile::leave() {
  if (hidden_ > 0) {
    --hidden_;
    return;
  }
  settle();
  open_.pop_back();
  whole_ = false;
}

std::vector<Profile::Entry> Profile::entries() const {
  std::vector<Entry> result;
  for (const auto& [key, entry] : entries_) result.push_back(entry);
  std::ranges::stable_sort(result, std::greater{}, &Entry::seconds);
  Entry other = outside_;
  // Time not settled yet belongs to no scope.
  other.seconds += seconds_between(settled_, now_());
  other.macs += kernels::counted_macs() - macs_;
  other.bytes += kernels::counted_bytes() - bytes_;
  result.push_back(std::move(other));
  return result;
}

std::vector<Profile::Entry> Profile::operations() const {
  std::map<std::pair<std::string, bool>, Entry> groups;
  std::vector<Entry> all = entries();
  const Entry other = std::move(all.back());
  all.pop_back();
  for (const Entry& entry : all) {
    Entry& group = groups[{entry.operation, entry.backward}];
    group.operation = entry.operation;
    group.backward = entry.backward;
    add(group, entry);
  }
  std::vector<Entry> result;
  for (const auto& [key, group] : groups) result.push_back(group);
  std::ranges::stable_sort(result, std::greater{}, &Entry::seconds);
  result.push_back(other);
  return result;
}

void ProfileScope::enter(const char* operation, Profile::Inside inside) {
  profile_->enter(operation, NameScope::current(), false, inside);
}

}  // namespace qkv
