#pragma once
// A profiler: time of a run by operation.

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace qkv {

// During its lifetime, the ProfileScopes of its thread are timed. Without a profile, a scope costs one
// comparison. Results have the same bits either way. One profile per thread; work on other threads is not
// timed, but its multiplications and bytes are included, because their counters are global.
class Profile {
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
  using Key = std::tuple<std::string, std::string, bool>;  // operation, module, backward

  enum class Inside { apart, whole };
  void enter(const char* operation, std::string_view module, bool backward, Inside inside);
  void leave();
  // Attributes the time since the last call to the innermost scope.
  void settle();

  static inline constinit thread_local Profile* active_ = nullptr;

  std::map<Key, Entry> entries_;
  std::vector<Entry*> open_;
  Entry outside_;
  // depth of scopes within a whole() scope
  int64_t hidden_ = 0;
  bool whole_ = false;
  Now now_;
  Clock::time_point began_, settled_;
  uint64_t macs_ = 0, bytes_ = 0;  // counters at the last settle()
};

// Attributes the thread's time to `operation` until the end of the block, in the current NameScope, except
// for the time of nested scopes.
class ProfileScope {
 public:
  explicit ProfileScope(const char* operation) : profile_(Profile::active_) {
    if (profile_ != nullptr) [[unlikely]]
      enter(operation, Profile::Inside::apart);
  }
  // The backward pass of `operation` in `module`.
  static ProfileScope backward(const char* operation, std::string_view module) {
    return ProfileScope(operation, module);
  }
  // Includes the time of nested scopes.
  static ProfileScope whole(const char* operation) { return ProfileScope(operation, Profile::Inside::whole); }
  ~ProfileScope() {
    if (profile_ != nullptr) [[unlikely]]
      profile_->leave();
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  ProfileScope(const char* operation, Profile::Inside inside) : profile_(Profile::active_) {
    if (profile_ != nullptr) [[unlikely]]
      enter(operation, inside);
  }
  ProfileScope(const char* operation, std::string_view module) : profile_(Profile::active_) {
    if (profile_ != nullptr) [[unlikely]]
      profile_->enter(operation, module, true, Profile::Inside::apart);
  }
  void enter(const char* operation, Profile::Inside inside);

  Profile* profile_;
};

}  // namespace qkv
