#include "tests/kills/killed_runs.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>
#include <stdexcept>

#include "apps/number_words.h"
#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/train/checkpoint.h"
#include "tests/support/events.h"

namespace qkv::testing {
namespace {

namespace fs = std::filesystem;

std::string quoted(const std::string& text) { return "'" + text + "'"; }

bool is_checkpoint(const fs::path& name) {
  return name.parent_path() == "checkpoints" && name.extension() == ".safetensors";
}

// Relative paths of all files except TensorBoard's, whose names contain the time.
std::set<std::string> files_of(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const fs::path name = fs::relative(entry.path(), folder);
    if (entry.is_regular_file() && *name.begin() != "runs") names.insert(name.string());
  }
  return names;
}

std::string litter_in(const fs::path& folder) {
  std::string found;
  if (!fs::exists(folder)) return found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.find("partial") != std::string::npos) found += " " + name;
  }
  return found;
}

std::string checkpoint_difference(const fs::path& expected, const fs::path& found) {
  const train::Checkpoint one = train::open_checkpoint(expected), other = train::open_checkpoint(found);
  if (one.fields != other.fields) return "other settings";
  const train::TrainState &a = one.state, &b = other.state;
  const auto same_curve = [](const train::CurveShare& x, const train::CurveShare& y) {
    return x.name == y.name && x.sum == y.sum && x.count == y.count;
  };
  const bool same = a.steps == b.steps && a.micro_steps == b.micro_steps && a.cursor == b.cursor &&
                    a.window.steps == b.window.steps && a.window.units == b.window.units &&
                    a.window.gradient_norm == b.window.gradient_norm &&
                    std::ranges::equal(a.window.curves, b.window.curves, same_curve) &&
                    a.validation_due == b.validation_due && a.validations == b.validations &&
                    a.best == b.best && a.best_step == b.best_step &&
                    a.validations_since_best == b.validations_since_best && a.snapshots == b.snapshots;
  if (!same) return "another state";
  if (one.file.names() != other.file.names()) return "other tensors";
  for (const std::string& name : one.file.names()) {
    const Tensor x = one.file.tensor(name), y = other.file.tensor(name);
    if (x.shape() != y.shape() || std::memcmp(x.as_bytes().data(), y.as_bytes().data(), x.bytes()) != 0)
      return name;
  }
  return {};
}

}  // namespace

std::string difference(const fs::path& expected, const fs::path& found) {
  const std::set<std::string> files = files_of(expected);
  std::string text;
  for (const std::string& name : files_of(found)) {
    if (!files.contains(name)) text += concat("left over: ", name, "\n");
  }
  for (const std::string& name : files) {
    if (!fs::exists(found / name)) {
      text += concat("missing: ", name, "\n");
    } else if (is_checkpoint(name)) {
      const std::string what = checkpoint_difference(expected / name, found / name);
      if (!what.empty()) text += concat(name, ": ", what, "\n");
    } else if (name != "speed.jsonl" && read_file(expected / name) != read_file(found / name)) {
      text += concat(name, ": different bytes\n");
    }
  }
  if (event_points(expected / "runs") != event_points(found / "runs")) text += "runs: different points\n";
  return text;
}

KilledRuns::KilledRuns(fs::path scratch, std::vector<std::string> options)
    : scratch_(std::move(scratch)), options_(std::move(options)) {
  fs::create_directories(scratch_);
  const apps::NumberSplit split = apps::split_numbers({.largest = 199, .held_out = 0, .validation = 20});
  apps::write_number_corpus(split.train, scratch_ / "train.en", scratch_ / "train.de");
  apps::write_number_corpus(split.validation, scratch_ / "valid.en", scratch_ / "valid.de");
  const std::string log = (scratch_ / "calls").string();
  // In the same folder as the killed runs, so that the calls have the same paths and number.
  const Ended whole = start(command("run"), std::nullopt, log);
  if (whole.status != 0) throw std::runtime_error("the uninterrupted run failed: " + whole.err);
  fs::rename(scratch_ / "run", scratch_ / "whole");
  std::istringstream lines(read_file(log));
  for (std::string line; std::getline(lines, line);) {
    const size_t path = line.find(scratch_.string());
    if (path != std::string::npos) line.erase(path, scratch_.string().size() + 1);
    calls_.push_back(line);
  }
}

int64_t KilledRuns::call(const std::string& prefix, int nth) const {
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i].starts_with(prefix) && --nth == 0) return static_cast<int64_t>(i) + 1;
  }
  throw std::out_of_range("no such call: " + prefix);
}

std::vector<std::string> KilledRuns::command(const std::string& folder) const {
  const auto path = [this](const std::string& name) { return (scratch_ / name).string(); };
  std::vector<std::string> all{"train",          "translation",
                               "--src",          path("train.en"),
                               "--tgt",          path("train.de"),
                               "--valid-src",    path("valid.en"),
                               "--valid-tgt",    path("valid.de"),
                               "--out",          path(folder),
                               "--preset",       "tiny",
                               "--set",          "model.d_model=16",
                               "--set",          "model.d_ff=32",
                               "--vocab-size",   "60",
                               "--batch-tokens", "300"};
  all.insert(all.end(), options_.begin(), options_.end());
  return all;
}

Ended KilledRuns::start(const std::vector<std::string>& arguments, const std::optional<Kill>& kill,
                        const std::string& log) const {
  const std::string err = (scratch_ / "err").string();
  std::string line = "exec env ";
  if (kill || !log.empty()) {
    line +=
        concat("LD_PRELOAD=", quoted(QKV_KILL_PRELOAD), " QKV_KILL_UNDER=", quoted(scratch_.string()), " ");
    if (kill) line += concat("QKV_KILL_AT=", kill->at, " QKV_KILL_SIGNAL=", kill->signal, " ");
    if (!log.empty()) line += concat("QKV_KILL_LOG=", quoted(log), " ");
  }
  line += quoted(QKV_PROGRAM);
  for (const std::string& argument : arguments) line += " " + quoted(argument);
  line += concat(" </dev/null >/dev/null 2>", quoted(err));
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_file(err)};
}

bool KilledRuns::begun() const {
  return fs::exists(scratch_ / "run/run.json") ||
         !train::CheckpointFolder(scratch_ / "run/checkpoints").empty();
}

std::string KilledRuns::check(const std::vector<Kill>& kills) {
  const std::string folder = (scratch_ / "run").string();
  fs::remove_all(folder);
  for (const Kill& kill : kills) {
    const Ended ended =
        start(begun() ? std::vector<std::string>{"train", "--resume", folder} : command("run"), kill);
    const std::string what = concat("signal ", kill.signal, " at call ", kill.at, ": ");
    if (ended.status == 0) {  // it had finished, or was about to
      ++too_late_;
      break;
    }
    ++sent_[kill.signal];
    if (ended.status != 128 + kill.signal) return concat(what, "status ", ended.status, ": ", ended.err);
    if (kill.signal == SIGKILL) continue;
    if (ended.err.find("continue with: qkv train --resume") == std::string::npos)
      return concat(what, "the message does not tell how to continue: ", ended.err);
    if (const std::string litter = litter_in(folder); !litter.empty()) return concat(what, "litter:", litter);
  }
  const Ended ended =
      start(begun() ? std::vector<std::string>{"train", "--resume", folder} : command("run"), std::nullopt);
  if (ended.status != 0) return concat("the last resumption: status ", ended.status, ": ", ended.err);
  const std::string different = difference(scratch_ / "whole", folder);
  if (different.empty()) return {};
  std::string text = "after";
  for (const Kill& kill : kills) text += concat(" ", kill.signal, "@", kill.at);
  return concat(text, ":\n", different);
}

}  // namespace qkv::testing
