#pragma once
// The file of --save-batches: the token ids of a run's batches, one JSON object per line.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "qkv/train/run_log.h"

namespace qkv::apps {

class SavedBatches {
 public:
  // first_step: the first that is made now; 1 unless the run is resumed. Throws IoError if the file cannot be
  // written. Its content remains until the first add().
  SavedBatches(const std::filesystem::path& path, int64_t first_step);

  // Adds the batch's line with the step that trains on it, from 1. The first call keeps the lines of steps
  // before first_step and removes all others: those of another run, and those after the checkpoint of a run
  // that was killed. Throws IoError, and DataError if the run is resumed and the file has other lines.
  void add(nlohmann::json batch, int64_t step);
  // Flushes the lines to disk. Throws IoError.
  void flush() { out_.flush(); }

 private:
  void keep_earlier_steps();

  std::filesystem::path path_;
  int64_t first_step_;
  train::JsonLines out_;
  bool is_first_ = true;
};

}  // namespace qkv::apps
