#pragma once
// Checks a folder's weights against their checksums.

#include <filesystem>
#include <vector>

#include "qkv/io/checksums.h"

namespace qkv::models {

struct VerifiedFile {
  std::filesystem::path path;
  io::ChecksumReport report;
};

// Reads model.safetensors, or each of its shards, and compares every tensor with the checksum that the file
// carries for it. qkv writes checksums; other programs do not. Throws IoError for a folder without weights,
// DataError for a file that is truncated or malformed.
std::vector<VerifiedFile> verify_weights(const std::filesystem::path& folder);

}  // namespace qkv::models
