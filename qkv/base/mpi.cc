#include "qkv/base/mpi.h"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <initializer_list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "qkv/base/log.h"
#include "qkv/base/mpi_plugin.h"
#include "qkv/base/thread.h"

namespace qkv {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

using Environment = std::function<const char*(const char*)>;

const char* value_of(const Environment& get, const char* name) { return get ? get(name) : std::getenv(name); }

// The number at the beginning of the first of these environment variables that is set ("2(x3)": 2), at least
// 1: mpirun within a job of Slurm has Slurm's, too.
int first_count(const Environment& get, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* const value = value_of(get, name))
      return std::max(1, static_cast<int>(std::strtol(value, nullptr, 10)));
  }
  return 1;
}

const MpiPlugin& load_plugin() {
  std::vector<std::filesystem::path> paths;
  if (const char* given = std::getenv("QKV_MPI_PLUGIN")) {
    paths.emplace_back(given);
  } else {
    std::error_code none;
    const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
    paths = {folder / "libqkv_mpi.so", folder.parent_path() / "lib/qkv/libqkv_mpi.so"};
  }
  std::string reasons;
  for (const std::filesystem::path& path : paths) {
    // Global: some versions of Open MPI load parts that expect its symbols.
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
      reasons += concat(reasons.empty() ? "" : "; ", ::dlerror());
      continue;
    }
    const auto get = reinterpret_cast<const MpiPlugin* (*)()>(::dlsym(library, kMpiPluginSymbol));
    if (get && get()->version == kMpiPluginVersion) return *get();
    throw UsageError(concat(path.string(), ": expected version ", kMpiPluginVersion,
                            " of qkv's library for MPI, found another"));
  }
  throw UsageError(
      concat("this process is one of several of a launcher: expected qkv's library for MPI (built with "
             "MPI's headers), found none: ",
             reasons));
}

class Ranks final : public Communicator {
 public:
  Ranks(const MpiPlugin& mpi, MpiOptions options)
      : mpi_(mpi), options_(std::move(options)), rank_(mpi.rank()), size_(mpi.size()) {
    heard_.assign(static_cast<size_t>(size_), Clock::now());
    signals_.assign(static_cast<size_t>(size_), nullptr);
    lanes_.resize(static_cast<size_t>(size_));
    thread_ = start_thread([this] { serve(); });
  }

  ~Ranks() override {
    barrier();  // while ranks that hang are noticed
    {
      const std::lock_guard lock(calls_);
      ends_ = true;
    }
    wake_.notify_all();
    thread_.join();
    // No signal is sent after the barrier, and MPI must not end with one that nobody has received, or whose
    // request is left. Those of a rank come before its message of the barrier.
    barrier();
    mpi_.take_signals([](int /*from*/, void* /*argument*/) {}, nullptr);
    for (void* const last : signals_) {
      for (int done = last ? 0 : 1; !done;) require(mpi_.test(last, &done));
    }
    mpi_.finish();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string host(int rank) const override { return mpi_.host(rank); }
  std::string name(int rank) const override { return concat("rank ", rank, " (", host(rank), ")"); }

  std::unique_ptr<Transfer> start(std::span<const Outgoing> outgoing,
                                  std::span<const Incoming> incoming) override {
    auto made = std::make_unique<Messages>(*this);
    const std::lock_guard lock(calls_);
    for (const auto& [from, bytes] : incoming) {
      for_parts(bytes, [&, from = from](auto part) {
        require(mpi_.receive(from, 0, part.data(), part.size(), &made->receives.emplace_back()));
      });
    }
    for (const auto& [to, bytes] : outgoing) {
      traffic_.bytes_sent += std::ssize(bytes);
      Lane& lane = lanes_[static_cast<size_t>(to)];
      for_parts(bytes, [&](auto part) {
        lane.sends.push_back({made.get(), part});
        ++made->sends;
      });
      advance(to);
    }
    under_way_.push_back(made.get());
    wake_.notify_all();
    return made;
  }

  Traffic traffic() const override {
    const std::lock_guard lock(calls_);
    return traffic_;
  }

  void fail(int exit_status) noexcept override {
    const std::lock_guard lock(calls_);
    mpi_.abort(exit_status);
  }

 private:
  struct Messages final : Transfer {
    explicit Messages(Ranks& all) : ranks(all) {}
    ~Messages() override { ranks.finish(*this); }
    void wait() override { ranks.finish(*this); }
    bool done() override {
      const std::lock_guard lock(ranks.calls_);
      ranks.progress(this);
      return all_ended();
    }
    Clock::time_point ended() const override {
      const std::lock_guard lock(ranks.calls_);
      return last;
    }
    bool all_ended() const { return sends == 0 && receives.empty(); }

    Ranks& ranks;
    size_t sends = 0;            // that are left
    std::deque<void*> receives;  // requests of MPI
    Clock::time_point last;
  };

  // What is sent to a rank: one message after the other, because MPI divides a link among those that it has
  // begun, so that all of them would arrive late.
  struct Send {
    Messages* of;
    std::span<const std::byte> bytes;
    void* request = nullptr;  // of MPI
  };
  struct Lane {
    std::deque<Send> sends;
    size_t begun = 0, begun_bytes = 0;  // of these
  };

  template <class Bytes, class Function>
  static void for_parts(Bytes bytes, const Function& function) {
    for (size_t at = 0; at < bytes.size(); at += kMpiPartBytes)
      function(bytes.subspan(at, std::min(kMpiPartBytes, bytes.size() - at)));
  }

  // Ends and begins messages to a rank. Enough are under way to keep a link busy between two calls.
  void advance(int to) {
    constexpr size_t kEnoughBytes = 2 * kMpiPartBytes;
    Lane& lane = lanes_[static_cast<size_t>(to)];
    for (;;) {
      for (; lane.begun < lane.sends.size() && lane.begun_bytes < kEnoughBytes; ++lane.begun) {
        Send& next = lane.sends[lane.begun];
        require(mpi_.send(to, 0, next.bytes.data(), next.bytes.size(), &next.request));
        lane.begun_bytes += next.bytes.size();
      }
      int done = 0;
      if (lane.begun > 0) require(mpi_.test(lane.sends.front().request, &done));
      if (!done) return;
      const Send& ended = lane.sends.front();
      if (--ended.of->sends == 0 && ended.of->all_ended()) ended.of->last = Clock::now();
      lane.begun_bytes -= ended.bytes.size();
      --lane.begun;
      lane.sends.pop_front();
    }
  }

  // Lets MPI work, which it does within its functions only. Under the lock of calls_. Each test of a request
  // is a call that lets all of them progress, so that few are made: of the oldest messages, and those wanted.
  void progress(const Messages* wanted = nullptr) {
    for (int to = 0; to < size_; ++to) advance(to);
    constexpr int kTested = 4;
    int tested = 0;
    for (Messages* const one : under_way_) {
      if (one->receives.empty() || (tested == kTested && one != wanted)) continue;
      for (int done = 0; !one->receives.empty(); one->receives.pop_front()) {
        require(mpi_.test(one->receives.front(), &done));
        if (!done) break;
      }
      if (one->all_ended()) one->last = Clock::now();
      if (!one->receives.empty()) ++tested;
    }
    std::erase_if(under_way_, [](const Messages* one) { return one->all_ended(); });
  }

  void finish(const Messages& messages) {
    const Clock::time_point from = Clock::now();
    // Spins at first, then leaves the processor to others: a rank may wait for minutes.
    constexpr int kSpins = 2000;
    for (int64_t round = 0;; ++round) {
      {
        const std::lock_guard lock(calls_);
        progress(&messages);
        if (messages.all_ended()) {
          traffic_.waiting += Seconds{Clock::now() - from}.count();
          return;
        }
      }
      if (round > kSpins)
        std::this_thread::sleep_for(std::chrono::microseconds(std::min<int64_t>(500, round / 50)));
    }
  }

  // Ends the process: MPI may still write to the buffers of messages that are under way.
  void require(const char* failure) {
    if (!failure) return;
    if (options_.on_lost) options_.on_lost(concat("MPI: ", failure));
    mpi_.abort(1);
  }

  // The work of the thread: progress of messages beside the computation, and signals between the root and
  // each other rank that it is alive; ends all if one is not.
  void serve() {
    const Seconds pause{std::min(1.0, options_.timeout / 8)};
    // A call of MPI interrupts the computation, also where it finds nothing to do: with a pause of 0.1 ms it
    // took a sixth of a core. Within a millisecond the buffers of a socket neither fill nor run empty.
    constexpr std::chrono::microseconds kPoll{1000};
    Clock::time_point next = Clock::now() + std::chrono::duration_cast<Clock::duration>(pause);
    std::unique_lock lock(calls_);
    while (!ends_) {
      if (under_way_.empty()) {
        wake_.wait_until(lock, next);
      } else {
        wake_.wait_for(lock, kPoll);
        progress();
      }
      if (Clock::now() < next) continue;
      exchange_signals();
      next = Clock::now() + std::chrono::duration_cast<Clock::duration>(pause);
    }
  }

  void exchange_signals() {
    for (int other = 0; other < size_; ++other) {
      if (other == rank_ || (rank_ != 0 && other != 0)) continue;
      signal(other);
    }
    mpi_.take_signals(
        [](int from, void* self) {
          static_cast<Ranks*>(self)->heard_[static_cast<size_t>(from)] = Clock::now();
        },
        this);
    for (int other = 0; other < size_; ++other) {
      if (other == rank_ || (rank_ != 0 && other != 0)) continue;
      if (Clock::now() - heard_[static_cast<size_t>(other)] < Seconds{options_.timeout}) continue;
      if (options_.on_lost)
        options_.on_lost(concat(name(other), " has not answered for ", options_.timeout, " s"));
      mpi_.abort(1);
    }
  }

  void signal(int other) {
    void*& last = signals_[static_cast<size_t>(other)];
    if (last) {
      int done = 0;
      if (mpi_.test(last, &done) || !done) return;
      last = nullptr;
    }
    mpi_.send(other, 1, nullptr, 0, &last);
  }

  const MpiPlugin& mpi_;
  const MpiOptions options_;
  const int rank_, size_;
  mutable std::mutex calls_;  // one call of MPI at a time; protects all below

  std::vector<Messages*> under_way_;
  std::vector<Lane> lanes_;  // by rank
  Traffic traffic_;
  std::vector<Clock::time_point> heard_;
  std::vector<void*> signals_;  // the last one to each rank
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace

int launched_processes(const Environment& get) {
  // Open MPI's, that of MPICH and Intel MPI, and Slurm's. A batch script of Slurm has SLURM_NTASKS, and is no
  // step of srun.
  return first_count(get, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"});
}

int launched_on_host(const Environment& get) {
  if (launched_processes(get) == 1) return 1;
  return first_count(get, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"});
}

bool bound_by_launcher(const Environment& get) {
  if (value_of(get, "OMPI_COMM_WORLD_SIZE")) return value_of(get, "OMPI_MCA_orte_bound_at_launch") != nullptr;
  cpu_set_t own;
  return ::sched_getaffinity(0, sizeof own, &own) == 0 &&
         CPU_COUNT(&own) < static_cast<int>(std::thread::hardware_concurrency());
}

std::unique_ptr<Communicator> open_mpi_ranks(const MpiOptions& options) {
  const MpiPlugin& mpi = load_plugin();
  if (const char* failure = mpi.start()) throw RankError(concat("MPI: ", failure));
  if (const int expected = launched_processes(); mpi.size() != expected) {
    const int found = mpi.size();
    mpi.finish();
    throw UsageError(
        concat("expected the ", expected, " processes of the launcher, found ", found,
               " by MPI: srun needs an option such as --mpi=pmix, and mpirun must be that of the MPI "
               "with which qkv was built"));
  }
  return std::make_unique<Ranks>(mpi, options);
}

}  // namespace qkv
