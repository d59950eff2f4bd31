#pragma once
// File access: map, replace atomically, lock. All functions throw IoError naming the path and the reason.

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

namespace qkv {

std::string read_file(const std::filesystem::path& path);

// Intended use of a mapping.
enum class MapFor {
  writing,  // copy-on-write: writes change this process's copy only, never the file
  reading,  // writes crash, in return release_mapped() can free pages at any time
};

class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path, MapFor use = MapFor::writing);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::byte* data() const { return data_; }  // null for an empty file
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  MapFor use_;
};

// Frees the physical memory of a range in a file mapped for reading; the next access reads it from the file
// again. No effect on other memory.
void release_mapped(const void* data, size_t bytes);

// Writes to a temporary file and renames it to the target on commit(), after flushing to disk: readers see
// either the old or the new content, even after a crash. Without commit() nothing remains.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  [[noreturn]] void fail(const std::string& what);

  std::filesystem::path path_, temporary_;
  int descriptor_ = -1;
};

void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Exclusive use of a folder by one process. Released with the object, or when the process ends for any
// reason.
class FolderLock {
 public:
  // Throws UsageError if another FolderLock holds the folder, in this process or another. No effect on file
  // systems without locks.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

// Creates the folder and its parents if missing, and checks that files can be created in it.
void make_writable_folder(const std::filesystem::path& path);

}  // namespace qkv
