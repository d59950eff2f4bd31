#pragma once
// The parts of an input.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "qkv/pipelines/lines.h"

namespace qkv::pipelines {

// The chunks of a file.
class PartInput {
 public:
  // Reads the whole file. Throws IoError; UsageError for a compressed file.
  PartInput(std::filesystem::path path, const LineOptions& options);

  size_t size() const { return parts_.size(); }
  int64_t first(size_t part) const { return parts_[part].first; }
  int64_t lines(size_t part) const { return parts_[part].lines; }
  // Of all parts.
  const std::string& hash() const { return hash_; }

  // Throws IoError if the part is not what it was at the start.
  LineChunk read(size_t part);

 private:
  struct Part {
    std::streamoff offset;
    int64_t first, lines;
    uint64_t hash;
  };

  std::filesystem::path path_;
  LineOptions options_;
  std::ifstream in_;
  std::vector<Part> parts_;
  std::string hash_;
};

}  // namespace qkv::pipelines
