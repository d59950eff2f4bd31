#pragma once
// Files as qkv needs them: read whole, mapped, or replaced atomically. All throw IoError naming the path and
// the reason.

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

namespace qkv {

std::string read_file(const std::filesystem::path& path);

// What a mapped file may be used for.
enum class MapFor {
  writing,  // copy-on-write: writing changes this process's copy only, never the file
  reading,  // writing is a crash; in return release_mapped() can give pages back at any time
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

// Gives back the memory of what lies in a file mapped for reading; it comes from the file again when it is
// read again. Does nothing for any other memory.
void release_mapped(const void* data, size_t bytes);

// Writes beside the target and renames over it on commit(), after flushing to disk: whoever opens the target
// sees the old content or the new one, whatever happens in between. Without commit() nothing remains.
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

// A folder that one process works in. Goes with the object, and with the process however that ends.
class FolderLock {
 public:
  // Throws UsageError where another FolderLock holds the folder, in this process or in another. On file
  // systems without locks it holds nothing.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

// Creates the folder (and its parents) where it is missing, and checks that files can be made in it.
void make_writable_folder(const std::filesystem::path& path);

}  // namespace qkv
