// LD_PRELOAD library that makes one call of a program fail, chosen by the environment:
//
//   QKV_FAULT=CALL:INDEX:ERROR    the INDEX-th (from 0) CALL in main() fails with errno ERROR
//   QKV_FAULT=CALL:INDEX+:ERROR   and so do all later ones
//   QKV_FAULT_LOG=FILE            logs the failure and, at exit, the number of calls of each kind; for memory
//                                 also the requesting library, if it is oneDNN or SentencePiece
//   QKV_FAULT_LIBRARIES=1         logs the indices of allocations by oneDNN and SentencePiece
//   QKV_FAULT_TRACE=1             prints the call's backtrace to stderr
//
// CALL is one of kNames. malloc includes calloc, realloc, posix_memalign, aligned_alloc and memalign, and
// thereby operator new; mmap is only that of files. Writes to
// stderr never fail, because the message is tested. "short" writes half of the bytes, "clock" is the wall
// clock, which jumps by ERROR seconds.
//
// Uses neither the C++ library nor dynamic memory.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

extern "C" {
void* __libc_malloc(size_t);            // NOLINT: glibc's names of its allocator
void* __libc_calloc(size_t, size_t);    // NOLINT
void* __libc_realloc(void*, size_t);    // NOLINT
void* __libc_memalign(size_t, size_t);  // NOLINT
}

namespace {

enum Call {
  kOpen,
  kRead,
  kWrite,
  kShort,
  kFsync,
  kRename,
  kMmap,
  kClose,
  kUnlink,
  kMkdir,
  kMalloc,
  kThread,
  kClock,
  kCalls
};
constexpr const char* kNames[kCalls] = {"open",  "read",   "write", "short",  "fsync",  "rename", "mmap",
                                        "close", "unlink", "mkdir", "malloc", "thread", "clock"};

std::atomic<long> counts[kCalls];
bool armed = false;  // set when main() starts
int failing_call = -1;
long first_index = 0;
bool all_later = false;
int error_number = 0;
int log_file = -1;
bool trace = false;
bool log_libraries = false;

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Text on the stack, because a failing malloc must be reported without allocation.
struct Line {
  char text[600];
  size_t size = 0;
  void add(const char* more) {
    while (*more && size < sizeof(text)) text[size++] = *more++;
  }
  void add(long number) {
    char digits[24];
    size_t count = 0;
    do digits[count++] = static_cast<char>('0' + number % 10);
    while ((number /= 10) > 0);
    while (count > 0 && size < sizeof(text)) text[size++] = digits[--count];
  }
  void write(int file) const { ::syscall(SYS_write, file, text, size); }
};

// Libraries whose allocations are told from others, and their addresses.
struct Library {
  const char* name;
  uintptr_t begin = 0, end = 0;
};
Library libraries[] = {{"libdnnl.so"}, {"libsentencepiece.so"}};

int find_addresses(dl_phdr_info* info, size_t, void*) {
  for (Library& library : libraries) {
    if (!::strstr(info->dlpi_name, library.name)) continue;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& segment = info->dlpi_phdr[i];
      if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
      library.begin = info->dlpi_addr + segment.p_vaddr;
      library.end = library.begin + segment.p_memsz;
    }
  }
  return 0;
}

// The first of these libraries in the call stack; empty: none.
const char* library_of_call() {
  void* frames[64];
  const int count = ::backtrace(frames, 64);
  for (int i = 0; i < count; ++i) {
    const auto address = reinterpret_cast<uintptr_t>(frames[i]);
    for (const Library& library : libraries) {
      if (library.begin <= address && address < library.end) return library.name;
    }
  }
  return "";
}

void report(Call call, const char* path) {
  armed = false;  // backtrace() may allocate
  if (!path) path = library_of_call();
  if (log_file >= 0) {
    Line line;
    line.add("failed ");
    line.add(kNames[call]);
    line.add(" ");
    line.add(path);
    line.add("\n");
    line.write(log_file);
  }
  if (trace) {
    void* frames[64];
    ::backtrace_symbols_fd(frames, ::backtrace(frames, 64), STDERR_FILENO);
  }
  armed = true;
}

// Counts the call; returns whether it fails.
bool fails(Call call, const char* path = nullptr) {
  if (!armed) return false;
  const long index = counts[call].fetch_add(1, std::memory_order_relaxed);
  if (call != failing_call || index < first_index || (index > first_index && !all_later)) return false;
  if (index == first_index) report(call, path);
  errno = error_number;
  return true;
}

bool allocation_fails() {
  static thread_local bool searching = false;  // backtrace() may allocate
  if (log_libraries && armed && !searching) {
    searching = true;
    if (*library_of_call()) {
      Line line;
      line.add("library ");
      line.add(counts[kMalloc].load());
      line.add("\n");
      line.write(log_file);
    }
    searching = false;
  }
  return fails(kMalloc);
}

bool fails_on(Call call, int file) {
  if (!armed || file == log_file) return false;
  char link[32], path[512];
  ::snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const ssize_t length = ::readlink(link, path, sizeof(path) - 1);
  path[length > 0 ? length : 0] = '\0';
  return fails(call, path);
}

void read_settings() {
  if (const char* path = ::getenv("QKV_FAULT_LOG"))
    log_file = static_cast<int>(
        ::syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  trace = ::getenv("QKV_FAULT_TRACE") != nullptr;
  log_libraries = log_file >= 0 && ::getenv("QKV_FAULT_LIBRARIES");
  const char* fault = ::getenv("QKV_FAULT");
  const char* index = fault ? ::strchr(fault, ':') : nullptr;
  if (!index) return;
  for (int call = 0; call < kCalls; ++call) {
    const size_t length = static_cast<size_t>(index - fault);
    if (::strlen(kNames[call]) == length && ::strncmp(kNames[call], fault, length) == 0) failing_call = call;
  }
  char* end = nullptr;
  first_index = ::strtol(index + 1, &end, 10);
  all_later = *end == '+';
  if (all_later) ++end;
  error_number = *end == ':' ? static_cast<int>(::strtol(end + 1, nullptr, 10)) : EIO;
}

void write_counts() {
  armed = false;
  if (log_file < 0) return;
  for (int call = 0; call < kCalls; ++call) {
    Line line;
    line.add("count ");
    line.add(kNames[call]);
    line.add(" ");
    line.add(counts[call].load());
    line.add("\n");
    line.write(log_file);
  }
}

using Main = int(int, char**, char**);
Main* real_main = nullptr;

int armed_main(int count, char** arguments, char** environment) {
  read_settings();
  void* frame[1];
  ::backtrace(frame, 1);  // loads its library now
  ::dl_iterate_phdr(find_addresses, nullptr);
  armed = true;
  return real_main(count, arguments, environment);
}

struct AtExit {
  ~AtExit() { write_counts(); }
} at_exit;

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int __libc_start_main(Main* main, int count, char** arguments, void (*init)(),
                             void (*fini)(),  // NOLINT
                             void (*dynamic_fini)(), void* stack_end) {
  real_main = main;
  static auto* start =
      real<int(Main*, int, char**, void (*)(), void (*)(), void (*)(), void*)>("__libc_start_main");
  return start(armed_main, count, arguments, init, fini, dynamic_fini, stack_end);
}

// Memory.
EXPORT void* malloc(size_t size) noexcept { return allocation_fails() ? nullptr : __libc_malloc(size); }
EXPORT void* calloc(size_t count, size_t size) noexcept {
  return allocation_fails() ? nullptr : __libc_calloc(count, size);
}
EXPORT void* realloc(void* block, size_t size) noexcept {
  return allocation_fails() ? nullptr : __libc_realloc(block, size);
}
EXPORT void* memalign(size_t alignment, size_t size) noexcept {
  return allocation_fails() ? nullptr : __libc_memalign(alignment, size);
}
EXPORT void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return allocation_fails() ? nullptr : __libc_memalign(alignment, size);
}
EXPORT int posix_memalign(void** block, size_t alignment, size_t size) noexcept {
  if (allocation_fails()) return ENOMEM;
  void* const memory = __libc_memalign(alignment, size);
  if (!memory) return ENOMEM;
  *block = memory;
  return 0;
}
EXPORT void* mmap(void* address, size_t size, int protection, int flags, int file, off_t offset) noexcept {
  static auto* next = real<void*(void*, size_t, int, int, int, off_t)>("mmap");
  if (file >= 0 && fails_on(kMmap, file)) return MAP_FAILED;
  return next(address, size, protection, flags, file, offset);
}
EXPORT void* mmap64(void* address, size_t size, int protection, int flags, int file,
                    off64_t offset) noexcept {
  return mmap(address, size, protection, flags, file, offset);
}

// Files.
EXPORT int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
  va_end(more);
  static auto* next = real<int(const char*, int, ...)>("open");
  return fails(kOpen, path) ? -1 : next(path, flags, mode);
}
EXPORT int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
  va_end(more);
  return open(path, flags, mode);
}
EXPORT int openat(int folder, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
  va_end(more);
  static auto* next = real<int(int, const char*, int, ...)>("openat");
  return fails(kOpen, path) ? -1 : next(folder, path, flags, mode);
}
EXPORT FILE* fopen(const char* path, const char* mode) {
  static auto* next = real<FILE*(const char*, const char*)>("fopen");
  return fails(kOpen, path) ? nullptr : next(path, mode);
}
EXPORT FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }
EXPORT DIR* opendir(const char* path) {
  static auto* next = real<DIR*(const char*)>("opendir");
  return fails(kOpen, path) ? nullptr : next(path);
}
EXPORT ssize_t read(int file, void* data, size_t size) {
  static auto* next = real<ssize_t(int, void*, size_t)>("read");
  return fails_on(kRead, file) ? -1 : next(file, data, size);
}
EXPORT ssize_t write(int file, const void* data, size_t size) {
  static auto* next = real<ssize_t(int, const void*, size_t)>("write");
  if (file == STDERR_FILENO) return next(file, data, size);
  if (fails_on(kWrite, file)) return -1;
  return next(file, data, size > 1 && fails_on(kShort, file) ? size / 2 : size);
}
EXPORT ssize_t writev(int file, const iovec* parts, int count) {
  static auto* next = real<ssize_t(int, const iovec*, int)>("writev");
  if (file == STDERR_FILENO) return next(file, parts, count);
  if (fails_on(kWrite, file)) return -1;
  return next(file, parts, count > 1 && fails_on(kShort, file) ? count - 1 : count);
}
EXPORT int fsync(int file) {
  static auto* next = real<int(int)>("fsync");
  return fails_on(kFsync, file) ? -1 : next(file);
}
EXPORT int close(int file) {
  static auto* next = real<int(int)>("close");
  // The descriptor is closed nevertheless, as on Linux.
  const bool failed = fails_on(kClose, file);
  const int error = errno;
  const int result = next(file);
  if (failed) errno = error;
  return failed ? -1 : result;
}
EXPORT int fclose(FILE* stream) {
  static auto* next = real<int(FILE*)>("fclose");
  const bool failed = fails_on(kClose, ::fileno(stream));
  const int error = errno;
  const int result = next(stream);
  if (failed) errno = error;
  return failed ? EOF : result;
}
EXPORT int rename(const char* from, const char* to) noexcept {
  static auto* next = real<int(const char*, const char*)>("rename");
  return fails(kRename, to) ? -1 : next(from, to);
}
EXPORT int unlink(const char* path) noexcept {
  static auto* next = real<int(const char*)>("unlink");
  return fails(kUnlink, path) ? -1 : next(path);
}
EXPORT int unlinkat(int folder, const char* path, int flags) noexcept {
  static auto* next = real<int(int, const char*, int)>("unlinkat");
  return fails(kUnlink, path) ? -1 : next(folder, path, flags);
}
EXPORT int remove(const char* path) noexcept {
  static auto* next = real<int(const char*)>("remove");
  return fails(kUnlink, path) ? -1 : next(path);
}
EXPORT int mkdir(const char* path, mode_t mode) noexcept {
  static auto* next = real<int(const char*, mode_t)>("mkdir");
  return fails(kMkdir, path) ? -1 : next(path, mode);
}

// Threads and time.
EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                          void* argument) noexcept {
  static auto* next = real<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  return fails(kThread) ? EAGAIN : next(thread, attributes, body, argument);
}
EXPORT int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static auto* next = real<int(clockid_t, timespec*)>("clock_gettime");
  const int result = next(clock, time);
  if (clock == CLOCK_REALTIME && fails(kClock)) time->tv_sec += error_number;
  return result;
}
