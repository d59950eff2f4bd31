#include "apps/out_of_memory.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include "qkv/base/reserved_memory.h"

namespace qkv::apps {
namespace {

std::atomic<bool> failed = false, main_has_returned = false;

void release_or_throw() {
  if (release_reserved_memory()) return;
  failed = true;
  throw std::bad_alloc();
}

// SentencePiece trains on its own threads without catching exceptions, and protobuf, which it uses, throws in
// destructors.
[[noreturn]] void end_without_memory() {
  if (!failed) std::abort();
  constexpr std::string_view kMessage = "qkv: out of memory\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  std::_Exit(EXIT_FAILURE);
}

void end_if_a_library_exits() {
  if (failed && !main_has_returned) end_without_memory();
}

// glibc reserves 64 MiB of addresses for each thread's heap. Where they are limited (ulimit -v), a thread
// that gets none maps and unmaps each of its blocks by itself: minutes until SentencePiece's trainer ends.
void share_one_heap() {
  rlimit addresses{};
  if (::getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY)
    ::mallopt(M_ARENA_MAX, 1);
}

}  // namespace

void handle_out_of_memory() {
  share_one_heap();
  std::set_new_handler(release_or_throw);
  std::set_terminate(end_without_memory);
  std::atexit(end_if_a_library_exits);
}

int returned(int status) {
  main_has_returned = true;
  return status;
}

}  // namespace qkv::apps

// oneDNN 2.6 constructs objects in memory from this function without checking it, where no handler is asked.
// Sanitizers have a function of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" int posix_memalign(void** block, size_t alignment, size_t size) noexcept {
  if (!std::has_single_bit(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const int before = errno;
  do {
    if (void* const memory = ::memalign(alignment, size)) {
      *block = memory;
      return 0;
    }
  } while (qkv::release_reserved_memory());
  errno = before;
  return ENOMEM;
}
#endif
