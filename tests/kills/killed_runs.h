#pragma once
// Runs of `qkv train` that get signals, and what their folders must be in the end.

#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qkv::testing {

// A signal before a call on files, counted from 1 within one process; see preload.cc.
struct Kill {
  int64_t at = 0;
  int signal = SIGKILL;
};

struct Ended {
  int status = -1;  // the exit status; 128 + the signal where one ended it
  std::string err;
};

// One training with a folder to compare with: `whole` is what it leaves when nothing stops it.
class KilledRuns {
 public:
  // `options`: of the training, beside the files. Writes a corpus, and runs it once to the end. Throws
  // std::runtime_error where that fails.
  KilledRuns(std::filesystem::path scratch, std::vector<std::string> options);

  // The calls of the uninterrupted run in their order, "CALL PATH" with the path below the scratch folder.
  const std::vector<std::string>& calls() const { return calls_; }
  // The number of the `nth` call (from 1) that begins so: "rename run/config.json". Throws std::out_of_range.
  int64_t call(const std::string& prefix, int nth = 1) const;

  // Begins a new run in the folder `run`, and gives each process, the first and those that resume it, one of
  // the signals; then resumes it until it ends by itself. Returns what is wrong with the outcome: with exit
  // statuses, messages, litter after a graceful stop, or in the end with any file, compared with the whole
  // run's. Empty: nothing.
  std::string check(const std::vector<Kill>& kills);

  // How many signals were sent, by number, and how many of the processes had ended before.
  const std::map<int, int64_t>& signals_sent() const { return sent_; }
  int64_t came_too_late() const { return too_late_; }

 private:
  std::vector<std::string> command(const std::string& folder) const;
  Ended start(const std::vector<std::string>& arguments, const std::optional<Kill>& kill,
              const std::string& log = "") const;
  bool begun() const;  // whether the folder holds something to resume

  std::filesystem::path scratch_;
  std::vector<std::string> options_, calls_;
  std::map<int, int64_t> sent_;
  int64_t too_late_ = 0;
};

// What differs between the folders of two runs that should be the same: files that only one has, and
// contents. Of checkpoints and of TensorBoard's files, what depends on the clock is left out.
std::string difference(const std::filesystem::path& expected, const std::filesystem::path& found);

}  // namespace qkv::testing
