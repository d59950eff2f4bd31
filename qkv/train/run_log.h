#pragma once
// The logs of a training run: TensorBoard's curves in runs/, and in the run's folder
//   log.jsonl    one JSON object per line: means of the logged steps, and validations
//   speed.jsonl  the timings of the same steps; without them log.jsonl is equal for equal settings. With
//   several
//                ranks also the root's communication, means a step (ExchangeReport)
//   curve.svg    training and validation loss
// A resumed run truncates these files to its checkpoint, so that no point is repeated or missing.

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "qkv/io/tensorboard.h"
#include "qkv/train/curve_svg.h"
#include "qkv/train/observer.h"

namespace qkv::train {

// A text file of JSON objects that grows by whole lines. Throws IoError naming the file.
class JsonLines {
 public:
  explicit JsonLines(std::filesystem::path path);
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  // Written to the operating system immediately.
  void add(const std::string& object);
  // Flushes to disk, unless the path is a pipe or a device.
  void flush();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

class RunLog {
 public:
  // Size in bytes of each file at a checkpoint, by path in the folder.
  using Lengths = std::map<std::string, int64_t>;

  // For a new run: removes the logs of an earlier one. All functions throw IoError.
  explicit RunLog(const std::filesystem::path& folder);
  // For a run resumed after `step`.
  RunLog(const std::filesystem::path& folder, const Lengths& lengths, int64_t step);

  // One point of all curves; `units` is the unit of the rate ("tokens").
  void add(const StepReport& report, const std::string& units);
  void add(const ValidationReport& report);

  // Writes everything to the operating system, and draws curve.svg.
  void flush();
  // Flushes to disk; returns the sizes of the files.
  Lengths save();

 private:
  void open(std::optional<int64_t> resume_step);
  void read_curves();

  std::filesystem::path folder_;
  std::unique_ptr<io::EventWriter> events_;
  std::unique_ptr<JsonLines> log_, speed_;
  Curve train_{.name = "training loss", .points = {}}, valid_{.name = "validation loss", .points = {}};
};

}  // namespace qkv::train
