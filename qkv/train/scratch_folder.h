#pragma once
// A folder for a while.

#include <filesystem>
#include <system_error>
#include <utility>

#include "qkv/base/files.h"

namespace qkv::train {

// Made by the constructor, which removes what a killed process left there, and removed with its files by the
// destructor. In a run's folder, RunFolder removes those named NAME.partial-PID after a kill.
class ScratchFolder {
 public:
  // Throws IoError.
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {
    with_io_errors([&] { std::filesystem::remove_all(path_); });
    make_writable_folder(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace qkv::train
