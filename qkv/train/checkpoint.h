#pragma once
// Everything that a training run is at one moment, in one file, so that it can be resumed to the very same
// bits.

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

// What a run knows besides its tensors and its options. Random numbers need no state: they are functions of
// the seed, `micro_steps` and the cursor.
struct TrainState {
  int64_t steps = 0;         // optimizer steps done
  int64_t micro_steps = 0;   // batches run; what dropout is keyed by
  data::CursorState cursor;  // the next batch
  double seconds = 0;        // wall-clock time so far

  // Sums over the steps since the last point of the training curves.
  struct Window {
    int64_t steps = 0, units = 0;
    double gradient_norm = 0, seconds = 0;
    std::vector<CurveShare> curves;
  } window;

  bool validation_due = false;  // the next thing to do is to validate
  int64_t validations = 0;
  std::map<std::string, double> best;  // loss and metrics of the best validation; empty: none yet
  int64_t best_step = 0;
  int64_t validations_since_best = 0;
  std::vector<int64_t> snapshots;  // steps whose weights are kept for averaging, oldest first
  // Bytes of the files that grow with the run (curves, logs), by path in the run's folder. A resumed run cuts
  // them back to here.
  std::map<std::string, int64_t> logs;
};

// Settings and fingerprints by name, as text.
using Fields = std::map<std::string, std::string>;

struct Checkpoint {
  TrainState state;
  Fields fields;
  io::SafetensorsFile file;
};

// Throws DataError, naming the file, for one that is damaged or no checkpoint; IoError.
Checkpoint open_checkpoint(const std::filesystem::path& path);

// Flushes the entries of a folder to disk: only then is a rename in it safe from a power cut.
void flush_folder(const std::filesystem::path& folder);

// A folder of checkpoints, `step-000000120.safetensors` each. A file appears whole or not at all, and an old
// one is removed only after the new one is safely on disk, so that a kill at any moment leaves one to resume
// from. One checksum covers the whole file.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Writes one and then removes all but the newest `keep`. Throws IoError; earlier checkpoints then remain.
  void save(const TrainState& state, const Fields& fields, const std::vector<io::NamedTensor>& tensors,
            int64_t keep) const;

  // The newest whole one; damaged ones are logged and skipped. Nothing where there are none at all. Throws
  // DataError where there are some, but none is whole.
  std::optional<Checkpoint> load_latest() const;
  // The snapshots that any of the checkpoints needs, as far as they can be read.
  std::set<int64_t> snapshots() const;

  const std::filesystem::path& path() const { return folder_; }
  // Whether there is any, whole or not. Throws IoError where the folder cannot be read.
  bool empty() const { return list().empty(); }
  // By step, newest first, whole or not.
  std::vector<std::pair<int64_t, std::filesystem::path>> list() const;

 private:
  std::filesystem::path folder_;
};

}  // namespace qkv::train
