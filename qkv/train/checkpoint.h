#pragma once
// The complete state of a training run in one file, from which it resumes with the same bits.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/train/task.h"

namespace qkv::train {

// The state of a run besides tensors and options. Random numbers need no state: they are functions of the
// seed, `micro_steps` and the cursor.
struct TrainState {
  int64_t steps = 0;         // completed optimizer steps
  int64_t micro_steps = 0;   // batches run; keys dropout
  data::CursorState cursor;  // the next batch
  double seconds = 0;        // wall-clock time so far

  // Sums over the steps since the last point of the curves.
  struct Window {
    int64_t steps = 0, units = 0;
    double gradient_norm = 0, seconds = 0;
    std::vector<CurveShare> curves;
  } window;

  bool validation_due = false;  // the next action is a validation
  int64_t validations = 0;
  int64_t validated_step = 0;          // of the last scheduled validation; 0: none
  std::map<std::string, double> best;  // loss and metrics of the best validation; empty: none yet
  int64_t best_step = 0;
  int64_t validations_since_best = 0;
  std::vector<int64_t> snapshots;  // steps whose weights are kept for averaging, oldest first
  // Bytes of the files that grow with the run (curves, logs), by path in the run's folder. A resumed run
  // truncates them to this size.
  std::map<std::string, int64_t> logs;
};

// Settings and fingerprints by name, as text.
using Fields = std::map<std::string, std::string>;

// Throws UsageError naming the setting if a value is not UTF-8, such as the path of a file: JSON cannot store
// it.
void require_text(const Fields& fields);

struct Checkpoint {
  TrainState state;
  Fields fields;
  io::SafetensorsFile file;
};

// Throws IoError, and DataError naming the file if it is damaged or not a checkpoint.
Checkpoint open_checkpoint(const std::filesystem::path& path);

// Writes the checksum of a checkpoint's bytes over the 16 digits of its metadata "qkv_checksum", and flushes
// the file to disk. Throws DataError for a file without such digits, IoError.
void seal_checkpoint(const std::filesystem::path& path);

// A folder of checkpoints, `step-000000120.safetensors` each. Files are replaced atomically, and an old one
// is removed only after the new one is on disk, so that a kill at any time leaves a valid one. One checksum
// covers the whole file.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Writes a checkpoint, and then removes all but the newest `keep`. Throws UsageError for a `keep` below 1,
  // negative steps and what require_text() rejects; IoError, and earlier checkpoints then remain.
  void save(const TrainState& state, const Fields& fields, const std::vector<io::NamedTensor>& tensors,
            int64_t keep) const;

  // Removes all but the newest `keep` of the checkpoints up to step `newest`; later ones stay. save() does so
  // last, so a run that was killed before has one too many. Throws IoError if the folder cannot be read.
  void remove_old(int64_t newest, int64_t keep) const;

  // The newest valid checkpoint; damaged ones are logged and skipped. Nothing if there are none. Throws
  // DataError if all are damaged.
  std::optional<Checkpoint> load_latest() const;
  // The snapshots required by any readable checkpoint.
  std::set<int64_t> snapshots() const;

  const std::filesystem::path& path() const { return folder_; }
  // Whether there is any, valid or not. Throws IoError if the folder cannot be read.
  bool empty() const { return list().empty(); }
  // All files by step, newest first, valid or not.
  std::vector<std::pair<int64_t, std::filesystem::path>> list() const;

 private:
  std::filesystem::path folder_;
};

}  // namespace qkv::train
