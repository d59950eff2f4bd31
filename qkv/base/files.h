#pragma once
// File access: read, map, replace atomically, lock. All functions throw IoError naming the path and the
// reason.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace qkv {

// The content of a regular file.
std::string read_file(const std::filesystem::path& path);

// Likewise. A larger file is refused before it is read, with a DataError: "PATH: expected `what` of at most
// ..."
std::string read_limited_file(const std::filesystem::path& path, int64_t most_bytes, const std::string& what);

// Sequential reading of a file, pipe or device.
class InputFile {
 public:
  // Throws IoError if the file cannot be opened or is a folder.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Reads up to `bytes`; 0 at the end of the file.
  size_t read(void* data, size_t bytes);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

// A temporary file without a name: nothing remains of it, however the process ends.
class ScratchFile {
 public:
  // In this folder, whose file system must have the space.
  explicit ScratchFile(std::filesystem::path folder);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  void write(const void* data, size_t bytes);
  // Reads the next bytes, from the beginning, up to `bytes`; 0 at the end. No writes are allowed afterwards.
  size_t read(void* data, size_t bytes);

 private:
  std::filesystem::path folder_;
  int descriptor_ = -1;
  uint64_t read_ = 0;
};

// Intended use of a mapping.
enum class MapFor {
  writing,  // copy-on-write: writes change this process's copy only, never the file
  reading,  // read-only; in return release_mapped() can free pages at any time
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
  uint64_t id_ = 0;  // of mapped_files.h
};

// Frees the physical memory of a range in a file mapped for reading; the next access reads it from the file
// again. No effect on other memory.
void release_mapped(const void* data, size_t bytes);

// Writes to a temporary file beside the target and renames it on commit(), after flushing to disk: readers
// see either the old or the new content, even after a crash. The access rights of a replaced file stay.
// Without commit() nothing remains. Several objects may write to the same path, each to its own temporary
// file; the last commit() wins. Devices and pipes (/dev/null, /dev/stdout) are written to directly.
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

  std::filesystem::path path_, temporary_;  // no temporary_: writes go to the path itself
  int descriptor_ = -1;
};

[[noreturn]] void throw_io_error(const std::filesystem::filesystem_error& error);

// The result of `call`, whose std::filesystem::filesystem_error becomes an IoError of its path and reason:
// for functions that only throw errors of this library.
template <class Call>
decltype(auto) with_io_errors(const Call& call) {
  try {
    return call();
  } catch (const std::filesystem::filesystem_error& error) {
    throw_io_error(error);
  }
}

// Writes a folder's entries to disk, so that renamed and removed files stay so after a power cut. No effect
// where the file system or the permissions do not allow it.
void flush_folder(const std::filesystem::path& folder);

// Removes temporary files and folders (NAME.partial-PID) of killed processes from a folder, which no other
// process may be using.
void remove_partial_files(const std::filesystem::path& folder);

// Likewise those of one path, of processes of this machine that have ended.
void remove_partial_files_of(const std::filesystem::path& path);

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

// Whether the path is a folder; false if that cannot be found out.
bool is_folder(const std::filesystem::path& path);

// The contents of a folder, sorted by name. Empty if there is no such folder.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder);

// Creates the folder and its parents if missing, and checks that files can be created in it.
void make_writable_folder(const std::filesystem::path& path);

}  // namespace qkv
