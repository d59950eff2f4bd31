#pragma once
// IDX files (LeCun, the format of MNIST): big-endian counts, then bytes.

#include <cstdint>
#include <filesystem>
#include <vector>

namespace qkv::data {

// The images of one file: 1 byte per pixel, row by row.
struct IdxImages {
  int64_t images = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels = {};
};

// Reads a file of unsigned bytes with three dimensions (images, rows, columns), which gzip may compress.
// Memory grows with the data that is read, whatever the counts in the file are. Throws DataError for another
// magic number, no images, a side of 0 or above kMaxIdxSide, and a file that is shorter or longer than its
// counts say; IoError.
IdxImages read_idx_images(const std::filesystem::path& path);
inline constexpr int64_t kMaxIdxSide = 16384;

// Likewise for labels: one dimension.
std::vector<uint8_t> read_idx_labels(const std::filesystem::path& path);

}  // namespace qkv::data
