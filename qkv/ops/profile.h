#pragma once
// A profiler: time of a run by operation.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace qkv {

// During its lifetime, the ProfileScopes of its thread are timed. Without a profile, a scope costs one
// comparison. Results have the same bits either way. One profile per thread; work on other threads is not
// timed, but its multiplications and bytes are included, because their counters are global. A profile may be
// destroyed on any thread, also within a scope; its results are read while its thread is in no operation.
class Profile {
  struct State;

 public:
  struct Entry {
    std::string operation;  // "linear"
    std::string module;     // the NameScope: "encoder.layers.0.self_attn"; empty outside all scopes
    bool backward = false;
    int64_t calls = 0;
    double seconds = 0;  // wall-clock time, excluding nested scopes
    uint64_t macs = 0;   // multiply-accumulates (kernels::counted_macs)
    uint64_t bytes = 0;  // read and written (kernels::counted_bytes)

    double gflops() const { return seconds > 0 ? 2e-9 * static_cast<double>(macs) / seconds : 0; }
    double gb_per_s() const { return seconds > 0 ? 1e-9 * static_cast<double>(bytes) / seconds : 0; }
  };

  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();

  // now: the clock to read. Throws UsageError if this thread has a profile already.
  explicit Profile(Now now = &Clock::now);
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // By operation, module and direction, longest first, including the scope in progress. The last entry,
  // "other", is the time outside all scopes; the seconds of all entries sum to seconds().
  std::vector<Entry> entries() const;
  // Likewise, summed over modules.
  std::vector<Entry> operations() const;

  double seconds() const;  // since construction

 private:
  friend class ProfileScope;

  // The thread's; one that has ended remains until the next scope.
  static inline constinit thread_local State* active_ = nullptr;

  std::shared_ptr<State> state_;  // shared with its thread and its scopes
};

// Attributes the thread's time to `operation` until the end of the block, in the current NameScope, except
// for the time of nested scopes.
class ProfileScope {
 public:
  explicit ProfileScope(const char* operation) {
    if (Profile::active_ != nullptr) [[unlikely]]
      enter(operation);
  }
  // The backward pass of `operation` in `module`.
  static ProfileScope backward(const char* operation, std::string_view module) {
    return ProfileScope(operation, Kind::backward, module);
  }
  // Includes the time of nested scopes.
  static ProfileScope whole(const char* operation) { return ProfileScope(operation, Kind::whole, {}); }
  ~ProfileScope() {
    if (profile_ != nullptr) [[unlikely]]
      leave();
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  enum class Kind { forward, backward, whole };

  ProfileScope(const char* operation, Kind kind, std::string_view module) {
    if (Profile::active_ != nullptr) [[unlikely]]
      enter(operation, kind, module);
  }
  // module: of a backward pass; otherwise the current NameScope.
  void enter(const char* operation, Kind kind = Kind::forward, std::string_view module = {});
  void leave();

  std::shared_ptr<Profile::State> profile_;
};

}  // namespace qkv
