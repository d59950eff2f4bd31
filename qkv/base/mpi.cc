#include "qkv/base/mpi.h"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
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
    watch_ = start_thread([this] { watch(); });
  }

  ~Ranks() override {
    {
      const std::lock_guard lock(watching_);
      ends_ = true;
    }
    wake_.notify_all();
    watch_.join();
    mpi_.finish();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name(int rank) const override { return concat("rank ", rank, " (", mpi_.host(rank), ")"); }

  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) override {
    std::vector<void*> requests;
    {
      const std::lock_guard lock(calls_);
      for (const auto& [from, bytes] : incoming) {
        for (size_t at = 0; at < bytes.size(); at += kMostBytes)
          start(requests, mpi_.receive, from, bytes.subspan(at, std::min(kMostBytes, bytes.size() - at)));
      }
      for (const auto& [to, bytes] : outgoing) {
        for (size_t at = 0; at < bytes.size(); at += kMostBytes)
          start(requests, mpi_.send, to, bytes.subspan(at, std::min(kMostBytes, bytes.size() - at)));
      }
    }
    // Spins at first, then leaves the processor to others: a rank may wait for minutes.
    constexpr int kSpins = 2000;
    for (int64_t round = 0; !requests.empty(); ++round) {
      {
        const std::lock_guard lock(calls_);
        std::erase_if(requests, [this](void* request) {
          int done = 0;
          require(mpi_.test(request, &done));
          return done != 0;
        });
      }
      if (round > kSpins)
        std::this_thread::sleep_for(std::chrono::microseconds(std::min<int64_t>(500, round / 50)));
    }
  }

  void fail(int exit_status) noexcept override {
    const std::lock_guard lock(calls_);
    mpi_.abort(exit_status);
  }

 private:
  static constexpr size_t kMostBytes = size_t{1} << 30;

  template <class Start, class Bytes>
  void start(std::vector<void*>& requests, const Start& how, int other, Bytes bytes) {
    require(how(other, 0, bytes.data(), bytes.size(), &requests.emplace_back()));
  }

  // Ends the process: MPI may still write to the buffers of messages that are under way.
  void require(const char* failure) {
    if (!failure) return;
    if (options_.on_lost) options_.on_lost(concat("MPI: ", failure));
    mpi_.abort(1);
  }

  // Signals between the root and each other rank that it is alive, and ends all if one is not.
  void watch() {
    const Seconds pause{std::min(1.0, options_.timeout / 8)};
    std::unique_lock lock(watching_);
    while (!wake_.wait_for(lock, pause, [this] { return ends_; })) {
      const std::lock_guard call(calls_);
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
  std::mutex calls_;  // one call of MPI at a time

  // Of the thread that watches.
  std::vector<Clock::time_point> heard_;
  std::vector<void*> signals_;  // the last one to each rank
  std::mutex watching_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread watch_;
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
