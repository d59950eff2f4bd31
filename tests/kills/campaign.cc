// kill_campaign [KILLS [SEED]]: sends at least KILLS signals (default 300) to `qkv train`, each at a random
// call on files, one to three per run, and compares each final folder with that of an uninterrupted run.
// Prints one line per configuration; exits with status 1 if a folder differs.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "qkv/base/philox.h"
#include "tests/kills/configurations.h"
#include "tests/kills/killed_runs.h"

int main(int argc, char** argv) {
  using namespace qkv::testing;  // NOLINT(google-build-using-namespace)
  const int64_t wanted = argc > 1 ? std::strtoll(argv[1], nullptr, 10) : 300;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const std::filesystem::path scratch =
      std::filesystem::temp_directory_path() / ("qkv-kills-" + std::to_string(::getpid()));
  const auto configurations = kill_configurations();
  const auto share = (wanted + std::ssize(configurations) - 1) / std::ssize(configurations);
  constexpr int kSignals[] = {SIGKILL, SIGINT, SIGTERM, SIGHUP};
  int64_t kills = 0, failures = 0, folders = 0;
  qkv::RandomStream random(seed);
  for (const auto& [name, options] : configurations) {
    KilledRuns runs(scratch / name, options);
    int64_t own = 0, own_folders = 0;
    while (own < share) {
      std::vector<Kill> some(1 + random.below(3));
      for (Kill& kill : some) {
        kill.at = 1 + static_cast<int64_t>(random.below(runs.calls().size()));
        kill.signal = kSignals[random.below(4)];
      }
      const std::string wrong = runs.check(some);
      if (!wrong.empty()) {
        ++failures;
        std::cout << name << ": " << wrong << std::endl;
      }
      ++own_folders;
      own = 0;
      for (const auto& [signal, count] : runs.signals_sent()) own += count;
    }
    std::cout << name << ": " << own << " signals in " << own_folders << " runs of " << runs.calls().size()
              << " calls; by number:";
    for (const auto& [signal, count] : runs.signals_sent()) std::cout << ' ' << signal << ": " << count;
    std::cout << "; too late " << runs.came_too_late() << std::endl;
    kills += own;
    folders += own_folders;
  }
  std::cout << kills << " signals, " << folders << " folders compared, " << failures << " differ"
            << std::endl;
  std::error_code ignored;
  std::filesystem::remove_all(scratch, ignored);
  return failures == 0 ? 0 : 1;
}
