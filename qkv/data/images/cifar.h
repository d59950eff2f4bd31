#pragma once
// The binary files of CIFAR-10 and CIFAR-100 (Krizhevsky 2009): records of one label (CIFAR-100: a coarse and
// a fine label) and 32 x 32 pixels of 3 planes.

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace qkv::data {

inline constexpr int64_t kCifarSide = 32, kCifarBytes = 3 * kCifarSide * kCifarSide;

struct CifarImages {
  int64_t classes = 0;               // 10 or 100
  std::vector<uint8_t> pixels = {};  // [images, 3, 32, 32]
  std::vector<uint8_t> labels = {};  // CIFAR-100: the fine ones
};

// Reads files of one kind, one after another; gzip may compress them. The kind follows from the length of the
// first. Throws DataError for a length that is no multiple of a record's, an empty file, and a label out of
// range; IoError.
CifarImages read_cifar(std::span<const std::filesystem::path> files);

}  // namespace qkv::data
