#pragma once
// The folder of a training run, locked by the process that uses it.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/train/checkpoint.h"

namespace qkv::train {

// Within the folder of a run: tokens of its data.
inline constexpr const char* kRunCache = "cache";

// Action if the output folder already holds a run or a model.
enum class IfRunExists {
  refuse,   // UsageError
  resume,   // continue from the newest checkpoint; start a new run if there is none
  replace,  // start a new run, which overwrites it
};

// Throws UsageError if the folder holds a run or a model that `existing` does not allow.
void require_fitting_folder(const std::filesystem::path& folder, IfRunExists existing);

// The folder's contents determine how a run continues:
//   run.json      the settings of a run without a checkpoint: it restarts from its first step
//   checkpoints/  otherwise: the newest undamaged one
class RunFolder {
 public:
  // Creates the folder if it is missing, locks it, and removes unfinished files of killed runs. Throws
  // UsageError as require_fitting_folder() does, and if another RunFolder of this or another process has the
  // lock; IoError; DataError for a damaged run.json, or if there are checkpoints and all are damaged.
  RunFolder(std::filesystem::path folder, IfRunExists existing);
  RunFolder(RunFolder&&) = default;
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }
  // Throws IoError if the path no longer leads to the locked folder: a folder that was removed or renamed is
  // not created again, because it would lack the tokenizer and all earlier files.
  void require_there() const;

  // Whether there is a checkpoint to resume from.
  bool resumes() const { return checkpoint_.has_value(); }
  // Returns that checkpoint; may be called once.
  std::optional<Checkpoint> take_checkpoint();
  // The settings of the run to continue, of the checkpoint or run.json; nothing for a new run.
  const std::optional<Fields>& settings() const { return settings_; }
  // Steps completed at the checkpoint.
  int64_t steps() const { return steps_; }

  // Writes run.json, after which a killed run can be continued.
  void record(const Fields& settings);
  // Changes settings in the run.json that record() wrote, if it is still there.
  void amend_record(const Fields& settings);
  // Removes run.json, after the first checkpoint. Throws IoError.
  void forget_record();
  // For a run that cannot start: takes back what it wrote, run.json (an earlier one returns), a new cache,
  // and the folder if it is then empty and new. Throws IoError.
  void withdraw();
  // From now on the destructor withdraws the run, unless keep() was called before.
  void withdraw_unless_kept() { withdraws_ = true; }
  void keep() { withdraws_ = false; }

 private:
  void read_record();
  void write_record(const Fields& settings) const;

  std::filesystem::path path_;
  std::unique_ptr<FolderLock> lock_;
  uint64_t device_ = 0, inode_ = 0;  // the folder's identity
  std::optional<Checkpoint> checkpoint_;
  std::optional<Fields> settings_;
  int64_t steps_ = 0;
  std::optional<Fields> recorded_;                // in run.json, by this process
  std::optional<std::string> earlier_record_;     // run.json before
  bool created_ = false, created_cache_ = false;  // there was no folder, no cache before
  bool withdraws_ = false;
};

}  // namespace qkv::train
