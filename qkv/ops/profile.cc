#include "qkv/ops/profile.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <tuple>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/per_thread.h"
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

struct Profile::State : std::enable_shared_from_this<State> {
  using Key = std::tuple<std::string, std::string, bool>;  // operation, module, backward

  explicit State(Now clock) : now(clock) { outside.operation = "other"; }

  void enter(const char* operation, std::string_view module, bool is_backward, bool includes_nested);
  void leave();
  // Attributes the time since the last call to the innermost scope.
  void settle();

  // The calling thread's, which keeps it.
  static std::shared_ptr<State>& of_thread() { return per_thread<std::shared_ptr<State>>(); }
  // Makes `profile` that of the calling thread; null: none.
  static void activate(std::shared_ptr<State> profile) {
    std::shared_ptr<State>& kept = of_thread();
    kept = std::move(profile);
    active_ = kept.get();
  }

  std::map<Key, Entry> entries;
  std::vector<Entry*> open;
  Entry outside;
  // depth of scopes within a whole() scope
  int64_t hidden = 0;
  bool whole = false;
  Now now;
  Clock::time_point began = now(), settled = began;
  uint64_t macs = kernels::counted_macs(), bytes = kernels::counted_bytes();  // at the last settle()
  std::atomic<bool> ended = false;
};

Profile::Profile(Now now) {
  if (active_ != nullptr && !active_->ended)
    throw UsageError("a profile is already being made on this thread");
  state_ = std::make_shared<State>(now);
  State::activate(state_);
}

Profile::~Profile() {
  state_->ended = true;
  if (active_ == state_.get()) State::activate(nullptr);
}

double Profile::seconds() const { return seconds_between(state_->began, state_->now()); }

void Profile::State::settle() {
  Entry& entry = open.empty() ? outside : *open.back();
  const Clock::time_point time = now();
  const uint64_t macs_now = kernels::counted_macs(), bytes_now = kernels::counted_bytes();
  entry.seconds += seconds_between(settled, time);
  entry.macs += macs_now - macs;
  entry.bytes += bytes_now - bytes;
  settled = time;
  macs = macs_now;
  bytes = bytes_now;
}

void Profile::State::enter(const char* operation, std::string_view module, bool is_backward,
                           bool includes_nested) {
  if (whole) {
    ++hidden;
    return;
  }
  settle();
  const auto [found, is_new] = entries.try_emplace(Key{operation, module, is_backward});
  Entry& entry = found->second;
  if (is_new) {
    entry.operation = operation;
    entry.module = module;
    entry.backward = is_backward;
  }
  open.push_back(&entry);
  ++entry.calls;
  whole = includes_nested;
}

void Profile::State::leave() {
  if (hidden > 0) {
    --hidden;
    return;
  }
  settle();
  open.pop_back();
  whole = false;
}

std::vector<Profile::Entry> Profile::entries() const {
  std::vector<Entry> result;
  for (const auto& [key, entry] : state_->entries) result.push_back(entry);
  std::ranges::stable_sort(result, std::greater{}, &Entry::seconds);
  Entry other = state_->outside;
  // Time not settled yet belongs to no scope.
  other.seconds += seconds_between(state_->settled, state_->now());
  other.macs += kernels::counted_macs() - state_->macs;
  other.bytes += kernels::counted_bytes() - state_->bytes;
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

void ProfileScope::enter(const char* operation, Kind kind, std::string_view module) {
  if (Profile::active_->ended) {  // on another thread
    Profile::State::activate(nullptr);
    return;
  }
  const bool backward = kind == Kind::backward;
  Profile::active_->enter(operation, backward ? module : NameScope::current(), backward, kind == Kind::whole);
  profile_ = Profile::active_->shared_from_this();
}

void ProfileScope::leave() { profile_->leave(); }

}  // namespace qkv
