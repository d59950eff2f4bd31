#pragma once
// What a run writes down while it trains: TensorBoard's curves in runs/, and in the run's folder
//   log.jsonl    a JSON object a line: the means of the logged steps, and the validations
//   speed.jsonl  of the same steps what depends on the clock, so that log.jsonl is the same for every run of
//   the
//                same settings
//   curve.svg    the training and the validation loss
// A run that is resumed cuts these files back to its checkpoint, so that no point is there twice or missing.

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

  // Handed to the operating system at once.
  void add(const std::string& object);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

class RunLog {
 public:
  // Bytes of each file at a checkpoint, by path in the folder.
  using Lengths = std::map<std::string, int64_t>;

  // Of a new run: removes what an earlier one wrote. Throws IoError, like everything here.
  explicit RunLog(const std::filesystem::path& folder);
  // Of a run that is resumed behind `step`.
  RunLog(const std::filesystem::path& folder, const Lengths& lengths, int64_t step);

  // One point of all curves; `units` is what the rate counts ("tokens").
  void add(const StepReport& report, const std::string& units);
  void add(const ValidationReport& report);

  // Hands everything to the operating system, and draws curve.svg.
  void flush();
  // Flushes to disk, and says how long the files are now.
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
