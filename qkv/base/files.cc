#include "qkv/base/files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/mapped_files.h"

namespace qkv {
namespace {

std::string reason() { return std::generic_category().message(errno); }

// Closed with the object.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

// The descriptor of a regular file, and its size.
int open_regular(const std::filesystem::path& path, size_t& size) {
  // Opening a pipe would otherwise wait for its writer. Regular files are read as without the flag.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) throw IoError(concat("cannot open ", path.string(), ": ", reason()));
  struct stat status {};
  if (::fstat(file.number(), &status) != 0)
    throw IoError(concat("cannot read ", path.string(), ": ", reason()));
  if (!S_ISREG(status.st_mode)) {
    throw IoError(concat("cannot read ", path.string(), ": ",
                         S_ISDIR(status.st_mode) ? "is a folder" : "not a regular file"));
  }
  size = static_cast<size_t>(status.st_size);
  return file.release();
}

size_t read_some(const std::filesystem::path& path, int descriptor, void* data, size_t bytes) {
  for (;;) {
    const ssize_t count = ::read(descriptor, data, bytes);
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EINTR) throw IoError(concat("cannot read ", path.string(), ": ", reason()));
  }
}

// Returns false and sets errno if not all bytes could be written.
bool write_all(int descriptor, const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor, next, bytes);
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    next += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

constexpr std::string_view kPartial = ".partial-";

// Unique in this process, and among the running processes of this machine.
std::string temporary_name() {
  static std::atomic<uint64_t> count{0};
  return concat(kPartial, ::getpid(), "-", count.fetch_add(1));
}

bool is_temporary(const std::string& name) {
  const size_t at = name.rfind(kPartial);
  if (at == name.npos || at + kPartial.size() == name.size()) return false;
  return name.find_first_not_of("0123456789-", at + kPartial.size()) == name.npos;
}

// A device, a pipe, or a link to one (/dev/stdout), which a rename would replace by a file.
bool written_in_place(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !is_regular_file(status) && !is_directory(status)) return true;
  const std::string name = path.string();
  return (name.starts_with("/dev/") || name.starts_with("/proc/")) &&
         std::filesystem::is_symlink(std::filesystem::symlink_status(path, ignored));
}

// Reopening /dev/stdout and /dev/fd/N would overwrite the file from its first byte.
int open_in_place(const std::filesystem::path& path) {
  const std::string name = path.string();
  int open = -1;
  if (name == "/dev/stdout") open = STDOUT_FILENO;
  if (name == "/dev/stderr") open = STDERR_FILENO;
  for (const std::string_view prefix : {"/dev/fd/", "/proc/self/fd/"}) {
    if (name.starts_with(prefix))
      std::from_chars(name.data() + prefix.size(), name.data() + name.size(), open);
  }
  return open >= 0 ? ::fcntl(open, F_DUPFD_CLOEXEC, 0) : ::open(name.c_str(), O_WRONLY | O_CLOEXEC);
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
  size_t size = 0;
  const Descriptor file(open_regular(path, size));
  std::string content(size, '\0');
  size_t done = 0;
  while (done < size) {
    const size_t count = read_some(path, file.number(), content.data() + done, size - done);
    if (count == 0) break;  // it was truncated meanwhile
    done += count;
  }
  content.resize(done);
  return content;
}

std::string read_limited_file(const std::filesystem::path& path, int64_t most_bytes,
                              const std::string& what) {
  std::error_code error;  // of a file without a size: read_file() says it
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > static_cast<uintmax_t>(most_bytes)) {
    throw DataError(
        concat(path.string(), ": expected ", what, " of at most ", most_bytes, " bytes, found ", bytes));
  }
  return read_file(path);
}

void release_mapped(const void* data, size_t bytes) {
  read_only_maps().release(static_cast<std::byte*>(const_cast<void*>(data)), bytes);
}

MappedFile::MappedFile(const std::filesystem::path& path, MapFor use) : use_(use) {
  const Descriptor file(open_regular(path, size_));
  if (size_ == 0) return;
  const int protection = use_ == MapFor::reading ? PROT_READ : PROT_READ | PROT_WRITE;
  void* address = ::mmap(nullptr, size_, protection, MAP_PRIVATE, file.number(), 0);
  if (address == MAP_FAILED) throw IoError(concat("cannot map ", path.string(), ": ", reason()));
  data_ = static_cast<std::byte*>(address);
  try {
    id_ = add_mapped_file(path, file.number());
    if (use_ == MapFor::reading) read_only_maps().add(data_, size_);
  } catch (...) {
    remove_mapped_file(id_);
    ::munmap(data_, size_);
    throw;
  }
}

MappedFile::~MappedFile() {
  if (!data_) return;
  if (use_ == MapFor::reading) read_only_maps().remove(data_);
  remove_mapped_file(id_);
  ::munmap(data_, size_);
}

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) throw IoError(concat("cannot open ", path_.string(), ": ", reason()));
  struct stat status {};
  if (::fstat(file.number(), &status) == 0 && S_ISDIR(status.st_mode))
    throw IoError(concat("cannot read ", path_.string(), ": it is a folder"));
  descriptor_ = file.release();
}

InputFile::~InputFile() { ::close(descriptor_); }

size_t InputFile::read(void* data, size_t bytes) { return read_some(path_, descriptor_, data, bytes); }

ScratchFile::ScratchFile(std::filesystem::path folder) : folder_(std::move(folder)) {
  descriptor_ = ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor_ >= 0) return;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)
    throw IoError(concat("cannot write a temporary file in ", folder_.string(), ": ", reason()));
  // The file system does not support unnamed files.
  const std::string name = (folder_ / ("scratch" + temporary_name())).string();
  descriptor_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor_ < 0) throw IoError(concat("cannot write ", name, ": ", reason()));
  ::unlink(name.c_str());
}

ScratchFile::~ScratchFile() { ::close(descriptor_); }

void ScratchFile::write(const void* data, size_t bytes) {
  if (!write_all(descriptor_, data, bytes))
    throw IoError(concat("cannot write a temporary file in ", folder_.string(), ": ", reason()));
}

size_t ScratchFile::read(void* data, size_t bytes) {
  if (read_ == 0 && ::lseek(descriptor_, 0, SEEK_SET) < 0)
    throw IoError(concat("cannot read a temporary file in ", folder_.string(), ": ", reason()));
  const size_t count = read_some(folder_ / "a temporary file", descriptor_, data, bytes);
  read_ += count;
  return count;
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  if (written_in_place(path_)) {
    descriptor_ = open_in_place(path_);
  } else {
    temporary_ = path_.string() + temporary_name();
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    struct stat replaced {};
    if (descriptor_ >= 0 && ::stat(path_.c_str(), &replaced) == 0 && S_ISREG(replaced.st_mode))
      ::fchmod(descriptor_, replaced.st_mode & 0777);
  }
  if (descriptor_ < 0) throw IoError(concat("cannot write ", path_.string(), ": ", reason()));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const std::string& what) {
  const std::string why = reason();
  struct stat previous {};
  const bool unchanged = !temporary_.empty() && ::stat(path_.c_str(), &previous) == 0;
  throw IoError(concat("cannot ", what, " ", path_.string(), ": ", why,
                       unchanged ? "; the previous content is unchanged" : ""));
}

void AtomicFile::write(const void* data, size_t bytes) {
  if (!write_all(descriptor_, data, bytes)) fail("write");
}

void AtomicFile::commit() {
  // A device or pipe has nothing to flush.
  if (!temporary_.empty() && ::fsync(descriptor_) != 0) fail("flush");
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("close");
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("replace");
  temporary_.clear();
  flush_folder(path_.has_parent_path() ? path_.parent_path() : ".");
}

void flush_folder(const std::filesystem::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool flushed = descriptor.number() >= 0 && ::fsync(descriptor.number()) == 0;
  if (!flushed && errno != EACCES && errno != EINVAL && errno != ENOTSUP)
    throw IoError(concat("cannot flush the folder ", folder.string(), ": ", reason()));
}

void remove_partial_files(const std::filesystem::path& folder) {
  for (const std::filesystem::path& path : files_in(folder)) {
    std::error_code ignored;
    if (is_temporary(path.filename().string())) std::filesystem::remove_all(path, ignored);
  }
}

void remove_partial_files_of(const std::filesystem::path& path) {
  const std::string beginning = concat(path.filename().string(), kPartial);
  for (const std::filesystem::path& one : files_in(path.has_parent_path() ? path.parent_path() : ".")) {
    const std::string name = one.filename().string();
    if (!name.starts_with(beginning) || !is_temporary(name)) continue;
    int process = 0;
    std::from_chars(name.data() + beginning.size(), name.data() + name.size(), process);
    std::error_code ignored;
    if (process > 0 && ::kill(process, 0) != 0 && errno == ESRCH) std::filesystem::remove(one, ignored);
  }
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

void throw_io_error(const std::filesystem::filesystem_error& error) {
  throw IoError(concat(error.path1().string(), ": ", error.code().message()));
}

bool is_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    paths.push_back(entry->path());
  if (error && error != std::errc::no_such_file_or_directory)
    throw IoError(concat("cannot list folder ", folder.string(), ": ", error.message()));
  std::ranges::sort(paths);
  return paths;
}

void make_writable_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw IoError(concat("cannot create folder ", path.string(), ": ", error.message()));
  if (::access(path.c_str(), W_OK | X_OK) != 0) {
    throw IoError(concat("cannot write into folder ", path.string(), ": ", reason()));
  }
}

}  // namespace qkv
