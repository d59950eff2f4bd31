#pragma once
// Runs of `qkv train` that receive signals, and their expected folders.

#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qkv::testing {

// A signal before a call on files, counted from 1 per process; see preload.cc.
struct Kill {
  int64_t at = 0;
  int signal = SIGKILL;
};

struct Ended {
  int status = -1;  // exit status, or 128 + the terminating signal
  std::string err;
};

// A training configuration with the folder of its uninterrupted run, `whole`.
class KilledRuns {
 public:
  // `options`: of the training, besides the files. Writes a corpus and trains to the end once. Throws
  // std::runtime_error if that fails.
  KilledRuns(std::filesystem::path scratch, std::vector<std::string> options);

  // The calls of the uninterrupted run in order, "CALL PATH" with the path below the scratch folder.
  const std::vector<std::string>& calls() const { return calls_; }
  // The number of the `nth` call (from 1) with this prefix: "rename run/config.json". Throws
  // std::out_of_range.
  int64_t call(const std::string& prefix, int nth = 1) const;

  // Starts a new run in the folder `run` and sends one of the signals to each process, the first and those
  // that resume it; then resumes it to the end. Returns a description of errors in exit statuses, messages,
  // files left after a graceful stop, or final files compared with `whole`. Empty: none.
  std::string check(const std::vector<Kill>& kills);

  // Number of signals sent, by signal number, and number of processes that had ended before.
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

// Differences between the folders of two equal runs: files in only one of them, and contents. Ignores times
// in checkpoints and TensorBoard's files.
std::string difference(const std::filesystem::path& expected, const std::filesystem::path& found);

}  // namespace qkv::testing
