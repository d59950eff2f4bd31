#pragma once
// The files that are mapped by MappedFile, and whether they have changed since.

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <vector>

namespace qkv {

// A file when it was mapped.
struct MappedFileState {
  uint64_t id = 0;  // of the mapping, unique in this process
  std::filesystem::path path;
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;
  timespec modified{};
};

// Those that are mapped now, in the order of their mapping.
std::vector<MappedFileState> mapped_files();

// True if the file has been written in place since it was mapped, which changes what the mapping shows. A
// file that was replaced by renaming or removed has not: the mapping keeps the old one.
bool changed_in_place(const MappedFileState& file);

// For MappedFile: enters the open file, and removes the entry.
uint64_t add_mapped_file(const std::filesystem::path& path, int descriptor);
void remove_mapped_file(uint64_t id) noexcept;

}  // namespace qkv
