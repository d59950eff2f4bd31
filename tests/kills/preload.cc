// LD_PRELOAD library that sends a signal to its program at a call on files, chosen by the environment:
//
//   QKV_KILL_UNDER=DIR    counts the calls on files below DIR (not /dev, not terminals), from 1:
//                         open, write, fsync, rename, unlink, mkdir, truncate, link
//   QKV_KILL_AT=N         sends itself QKV_KILL_SIGNAL (a number) before the N-th of them
//   QKV_KILL_LOG=FILE     logs the calls, one per line: "CALL PATH"
//
// Stops the unmodified program at a known point of a run.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>

namespace {

struct Settings {
  const char* under = ::getenv("QKV_KILL_UNDER");
  const char* at_text = ::getenv("QKV_KILL_AT");
  const char* signal_text = ::getenv("QKV_KILL_SIGNAL");
  const char* log = ::getenv("QKV_KILL_LOG");
  long at = at_text ? ::strtol(at_text, nullptr, 10) : 0;
  int signal = signal_text ? static_cast<int>(::strtol(signal_text, nullptr, 10)) : SIGKILL;
  int log_file = log ? static_cast<int>(::syscall(SYS_openat, AT_FDCWD, log,
                                                  O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644))
                     : -1;
};

const Settings& settings() {
  static const Settings instance;
  return instance;
}

std::atomic<long> calls = 0;

void count(const char* call, const char* path) {
  const Settings& own = settings();
  if (!own.under || ::strncmp(path, own.under, ::strlen(own.under)) != 0) return;
  if (own.log_file >= 0) {
    char line[1200];
    const int size = ::snprintf(line, sizeof(line), "%s %.1100s\n", call, path);
    ::syscall(SYS_write, own.log_file, line, static_cast<size_t>(size));
  }
  if (calls.fetch_add(1) + 1 == own.at) ::kill(::getpid(), own.signal);
}

void count(const char* call, int file) {
  if (!settings().under || file == settings().log_file) return;
  char link[32], path[1024];
  ::snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const ssize_t length = ::readlink(link, path, sizeof(path) - 1);
  if (length <= 0) return;
  path[length] = '\0';
  count(call, path);
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  count("open", path);
  return real<int(const char*, int, ...)>("open")(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  count("open", path);
  return real<int(const char*, int, ...)>("open64")(path, flags, mode);
}

FILE* fopen(const char* path, const char* mode) {
  count("open", path);
  return real<FILE*(const char*, const char*)>("fopen")(path, mode);
}

FILE* fopen64(const char* path, const char* mode) {
  count("open", path);
  return real<FILE*(const char*, const char*)>("fopen64")(path, mode);
}

ssize_t write(int file, const void* data, size_t bytes) {
  count("write", file);
  return real<ssize_t(int, const void*, size_t)>("write")(file, data, bytes);
}

ssize_t writev(int file, const struct iovec* parts, int size) {
  count("write", file);
  return real<ssize_t(int, const struct iovec*, int)>("writev")(file, parts, size);
}

ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t at) {
  count("write", file);
  return real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64")(file, data, bytes, at);
}

ssize_t pwrite(int file, const void* data, size_t bytes, off_t at) {
  count("write", file);
  return real<ssize_t(int, const void*, size_t, off_t)>("pwrite")(file, data, bytes, at);
}

int fsync(int file) {
  count("fsync", file);
  return real<int(int)>("fsync")(file);
}

int rename(const char* from, const char* to) noexcept {
  count("rename", to);
  return real<int(const char*, const char*)>("rename")(from, to);
}

int unlink(const char* path) noexcept {
  count("unlink", path);
  return real<int(const char*)>("unlink")(path);
}

int remove(const char* path) noexcept {
  count("unlink", path);
  return real<int(const char*)>("remove")(path);
}

int mkdir(const char* path, mode_t mode) noexcept {
  count("mkdir", path);
  return real<int(const char*, mode_t)>("mkdir")(path, mode);
}

int truncate64(const char* path, off64_t size) noexcept {
  count("truncate", path);
  return real<int(const char*, off64_t)>("truncate64")(path, size);
}

int truncate(const char* path, off_t size) noexcept {
  count("truncate", path);
  return real<int(const char*, off_t)>("truncate")(path, size);
}

int link(const char* from, const char* to) noexcept {
  count("link", to);
  return real<int(const char*, const char*)>("link")(from, to);
}

}  // extern "C"
