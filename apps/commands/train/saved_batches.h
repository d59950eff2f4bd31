#pragma once
// The file of --save-batches: the token ids of a run's batches, one JSON object per line.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace qkv::apps {

class SavedBatches {
 public:
  // Throws IoError if the file cannot be written. Its content remains until the first add().
  explicit SavedBatches(const std::filesystem::path& path);

  // Adds the batch's line with the step that trains on it, from 1. `first_step`: the run's first one. The
  // first call keeps the lines of steps before it, which a resumed run has made, and removes all others:
  // those of another run, and those after the checkpoint from which a run resumes that was killed. Throws
  // IoError, and DataError if the run is resumed and the file has other lines.
  void add(nlohmann::json batch, int64_t step, int64_t first_step);

 private:
  void keep_before(int64_t step);

  std::filesystem::path path_;
  std::ofstream out_;
  bool is_first_ = true;
};

}  // namespace qkv::apps
