// The fault injection campaign; see qkv_faults --help.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>

#include "tests/faults/judge.h"

namespace qkv::faults {
namespace {

constexpr const char* kHelp = R"(qkv_faults [OPTION VALUE]...
Runs qkv's training, quantization, report and translation on small inputs; in each run one system call or allocation
fails. Prints a table of the outcomes. Exit status 1 if an outcome is wrong.
  --workload NAME   train, train-tiny, train-vocabulary, quantize, report or translate (default: all)
  --call NAME       open, read, write, full-disk, short-write, fsync, rename, mmap, close, unlink, mkdir, thread,
                    no-threads, clock-forward, clock-back, malloc or library: allocations, those of oneDNN and
                    SentencePiece (default: all but these two)
  --first N         Fail the first N calls, one per run (default: all)
  --drawn N         Fail N random calls of the rest, one per run (default: 0)
  --seed N          Random seed (default: 1)
  --share I/N       Fail every Nth of these calls only, from the Ith (from 0): for N processes (default: 0/1)
  --again N         After each Nth failure, repeat the run and compare (default: 1)
  --space N         Instead of calls: one run for each of N address space limits, from too little to enough
  --minutes N       Start no run after this time (default: no limit)
)";

struct Settings {
  std::string workload, call;
  long first = -1, drawn = 0, again = 1, space = 0, share = 0, shares = 1;
  unsigned long seed = 1;
  double minutes = 1e9;
};

Settings parse(int count, char** arguments) {
  Settings settings;
  for (int i = 1; i < count; i += 2) {
    const std::string name = arguments[i];
    if (i + 1 == count || name == "--help") {
      std::cout << kHelp;
      std::exit(name == "--help" ? 0 : 2);
    }
    const std::string value = arguments[i + 1];
    if (name == "--workload")
      settings.workload = value;
    else if (name == "--call")
      settings.call = value;
    else if (name == "--first")
      settings.first = std::stol(value);
    else if (name == "--drawn")
      settings.drawn = std::stol(value);
    else if (name == "--space")
      settings.space = std::stol(value);
    else if (name == "--share") {
      const size_t slash = value.find('/');
      if (slash == value.npos) throw std::runtime_error("--share: expected I/N, found " + value);
      settings.share = std::stol(value);
      settings.shares = std::stol(value.substr(slash + 1));
    } else if (name == "--again")
      settings.again = std::stol(value);
    else if (name == "--seed")
      settings.seed = std::stoul(value);
    else if (name == "--minutes")
      settings.minutes = std::stod(value);
    else
      throw std::runtime_error("no such option: " + name);
  }
  return settings;
}

std::vector<long> indices_of(const Settings& settings, long calls) {
  std::vector<long> indices(
      static_cast<size_t>(settings.first < 0 ? calls : std::min(settings.first, calls)));
  std::iota(indices.begin(), indices.end(), 0);
  std::vector<long> rest(static_cast<size_t>(calls) - indices.size()), drawn;
  std::iota(rest.begin(), rest.end(), std::ssize(indices));
  std::mt19937_64 random(settings.seed);
  std::ranges::sample(rest, std::back_inserter(drawn), settings.drawn, random);
  indices.insert(indices.end(), drawn.begin(), drawn.end());
  std::vector<long> share;
  for (size_t i = static_cast<size_t>(settings.share); i < indices.size();
       i += static_cast<size_t>(settings.shares))
    share.push_back(indices[i]);
  return share;
}

int run(const Settings& settings) {
  const auto started = std::chrono::steady_clock::now();
  const auto too_late = [&] {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started;
    return passed.count() > settings.minutes * 60;
  };
  const Programs programs{.qkv = QKV_PROGRAM, .preload = QKV_FAULTS_PRELOAD};
  std::string pattern = std::filesystem::temp_directory_path() / "qkv-faults-XXXXXX";
  if (!::mkdtemp(pattern.data())) throw std::runtime_error("cannot make " + pattern);
  const std::filesystem::path scratch = pattern;
  std::filesystem::create_directories(scratch / "run");

  long wrong = 0;
  std::cout << "| run | call | calls | failed in turn | ended well all the same | exit status 1 | wrong |\n"
               "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Workload& workload : make_workloads(programs.qkv, scratch)) {
    if (!settings.workload.empty() && workload.name != settings.workload) continue;
    const Judge judge(programs, workload, scratch / "run");
    const auto row = [&](const std::string& call, long calls, const std::vector<long>& indices,
                         const auto& fail) {
      std::map<Verdict::Kind, long> ended;
      for (const long index : indices) {
        if (too_late()) break;
        const Verdict verdict = fail(index);
        ++ended[verdict.kind];
        if (!verdict.complaint.empty()) std::cerr << verdict.complaint << std::endl;
      }
      const long bad = ended[Verdict::Kind::wrong];
      const long well = ended[Verdict::Kind::harmless], failed = ended[Verdict::Kind::failed_cleanly];
      wrong += bad;
      std::cout << "| " << workload.name << " | " << call << " | " << calls << " | " << well + failed + bad
                << " | " << well << " | " << failed << " | " << bad << " |" << std::endl;
    };
    if (settings.space > 0) {
      std::vector<long> sizes(static_cast<size_t>(settings.space));
      std::iota(sizes.begin(), sizes.end(), 0);
      row("address space", settings.space, sizes, [&](long i) {
        constexpr unsigned long kLeast = 80'000'000, kMost = 320'000'000;  // its libraries take 65 MB
        return judge.run_within(kLeast + (kMost - kLeast) / static_cast<unsigned long>(settings.space) *
                                             static_cast<unsigned long>(i),
                                i % settings.again == 0);
      });
      continue;
    }
    for (const CallKind& kind : call_kinds()) {
      if (settings.call.empty() ? kind.allocation : kind.name != settings.call) continue;
      row(kind.name, judge.calls(kind), indices_of(settings, judge.calls(kind)),
          [&](long index) { return judge.run(kind, index, index % settings.again == 0); });
    }
  }
  std::filesystem::remove_all(scratch);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace qkv::faults

int main(int count, char** arguments) {
  try {
    return qkv::faults::run(qkv::faults::parse(count, arguments));
  } catch (const std::exception& error) {
    std::cerr << "qkv_faults: " << error.what() << '\n';
    return 1;
  }
}
