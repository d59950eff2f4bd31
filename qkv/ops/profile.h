#pragma once
// Where the time of a run goes, operation by operation.

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace qkv {

// While one lives, the ProfileScopes of its thread are timed. Without one a scope costs one comparison, and
// with one the results are the same bits. One on a thread; models that run on other threads meanwhile do not
// show, but for the multiplications and bytes, which are counted for the whole process.
class Profile {
 public:
  struct Entry {
    std::string operation;  // "linear"
    std::string module;     // the NameScope: "encoder.layers.0.self_attn"; empty outside of all
    bool backward = false;
    int64_t calls = 0;
    double seconds = 0;  // on the wall, what scopes within took left out
    uint64_t macs = 0;   // multiply-accumulates, as kernels::counted_macs() has them
    uint64_t bytes = 0;  // read and written, as kernels::counted_bytes() has them

    double gflops() const { return seconds > 0 ? 2e-9 * static_cast<double>(macs) / seconds : 0; }
    double gb_per_s() const { return seconds > 0 ? 1e-9 * static_cast<double>(bytes) / seconds : 0; }
  };

  // Throws UsageError where this thread has one already.
  Profile();
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // By operation, module and direction, those that took longest first, in them what has been done so far. The
  // last one, "other", is the time since the profile began that no scope has had; all seconds together are
  // that time.
  std::vector<Entry> entries() const;
  // The same with the modules put together.
  std::vector<Entry> operations() const;

  double seconds() const;  // since it began

 private:
  friend class ProfileScope;
  using Clock = std::chrono::steady_clock;
  using Key = std::tuple<std::string, std::string, bool>;  // operation, module, backward

  enum class Inside { apart, whole };
  void enter(const char* operation, std::string_view module, bool backward, Inside inside);
  void leave();
  // Gives what was done since the last call to the innermost scope.
  void settle();

  static inline constinit thread_local Profile* active_ = nullptr;

  std::map<Key, Entry> entries_;
  std::vector<Entry*> open_;
  Entry outside_;
  // Scopes within one that is not to be taken apart.
  int64_t hidden_ = 0;
  bool whole_ = false;
  Clock::time_point began_, settled_;
  uint64_t macs_ = 0, bytes_ = 0;  // counted when it last settled
};

// From here to the end of the block the thread's time belongs to `operation`, in the NameScope around it.
// What a scope within this one takes belongs to that one.
class ProfileScope {
 public:
  explicit ProfileScope(const char* operation) : profile_(Profile::active_) {
    if (profile_ != nullptr) [[unlikely]]
      enter(operation, Profile::Inside::apart);
  }
  // The gradient of what `operation` did in `module`.
  static ProfileScope backward(const char* operation, std::string_view module) {
    return ProfileScope(operation, module);
  }
  // Scopes within do not count: the whole is one.
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
