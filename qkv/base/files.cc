#include "qkv/base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>

#include "qkv/base/error.h"

namespace qkv {
namespace {

std::string reason() { return std::generic_category().message(errno); }

int open_for_reading(const std::filesystem::path& path, struct stat& status) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw IoError(concat("cannot open ", path.string(), ": ", reason()));
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    const std::string why = S_ISDIR(status.st_mode) ? "is a folder" : "not a regular file";
    ::close(descriptor);
    throw IoError(concat("cannot read ", path.string(), ": ", why));
  }
  return descriptor;
}

// The files mapped for reading: address and size of each.
class ReadOnlyMaps {
 public:
  void add(std::byte* data, size_t size) {
    const std::lock_guard lock(mutex_);
    sizes_[data] = size;
  }
  void remove(std::byte* data) {
    const std::lock_guard lock(mutex_);
    sizes_.erase(data);
  }
  void release(std::byte* data, size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto after = sizes_.upper_bound(data);
    if (after == sizes_.begin()) return;
    const auto& [first, size] = *--after;
    if (data + bytes > first + size) return;
    // madvise takes whole pages; their other contents are read again on demand.
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t begin = static_cast<size_t>(data - first) / page * page;
    ::madvise(first + begin, static_cast<size_t>(data - first) + bytes - begin, MADV_DONTNEED);
  }

 private:
  std::mutex mutex_;
  std::map<std::byte*, size_t> sizes_;
};

// Never destroyed: static tensors may hold mappings until the process ends.
ReadOnlyMaps& read_only_maps() {
  static auto* instance = new ReadOnlyMaps;
  return *instance;
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  const MappedFile file(path, MapFor::reading);
  return file.size() == 0 ? std::string()
                          : std::string(reinterpret_cast<const char*>(file.data()), file.size());
}

void release_mapped(const void* data, size_t bytes) {
  read_only_maps().release(static_cast<std::byte*>(const_cast<void*>(data)), bytes);
}

MappedFile::MappedFile(const std::filesystem::path& path, MapFor use) : use_(use) {
  struct stat status {};
  const int descriptor = open_for_reading(path, status);
  size_ = static_cast<size_t>(status.st_size);
  if (size_ > 0) {
    const int protection = use_ == MapFor::reading ? PROT_READ : PROT_READ | PROT_WRITE;
    void* address = ::mmap(nullptr, size_, protection, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) {
      const std::string why = reason();
      ::close(descriptor);
      throw IoError(concat("cannot map ", path.string(), ": ", why));
    }
    data_ = static_cast<std::byte*>(address);
    if (use_ == MapFor::reading) read_only_maps().add(data_, size_);
  }
  ::close(descriptor);
}

MappedFile::~MappedFile() {
  if (!data_) return;
  if (use_ == MapFor::reading) read_only_maps().remove(data_);
  ::munmap(data_, size_);
}

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(concat(path_.string(), ".partial-", ::getpid())) {
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw IoError(concat("cannot write ", path_.string(), ": ", reason()));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const std::string& what) {
  throw IoError(
      concat("cannot ", what, " ", path_.string(), ": ", reason(), "; the previous content is unchanged"));
}

void AtomicFile::write(const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, bytes);
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("write");
    }
    next += written;
    bytes -= static_cast<size_t>(written);
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail("flush");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("replace");
  ::close(descriptor_);
  descriptor_ = -1;
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

FolderLock::FolderLock(const std::filesystem::path& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw IoError(concat("cannot open ", folder.string(), ": ", reason()));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor_);
    throw UsageError(concat(folder.string(),
                            ": expected a folder that no other run uses, found it locked by another run"));
  }
}

FolderLock::~FolderLock() { ::close(descriptor_); }

void make_writable_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw IoError(concat("cannot create folder ", path.string(), ": ", error.message()));
  if (::access(path.c_str(), W_OK | X_OK) != 0) {
    throw IoError(concat("cannot write into folder ", path.string(), ": ", reason()));
  }
}

}  // namespace qkv
