#pragma once
// Hashes as texts.

#include <cstdint>
#include <filesystem>
#include <string>

namespace qkv::pipelines {

// 16 hexadecimal digits.
std::string hash_text(uint64_t hash);

// A hash of a file, or of the files in a folder and its subfolders, without those of its training
// (checkpoints, cache, log). Throws IoError.
std::string content_hash(const std::filesystem::path& path);

}  // namespace qkv::pipelines
