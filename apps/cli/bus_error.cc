#include "apps/cli/bus_error.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace qkv::apps {
namespace {

void print(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

// "55d0c000-55d0d000 r--p 00000000 08:01 1234   /model/model.safetensors": the path if the address is within.
std::string_view path_at(std::string_view line, uintptr_t address) {
  uintptr_t bounds[2] = {0, 0};
  size_t at = 0;
  for (uintptr_t& bound : bounds) {
    for (; at < line.size() && line[at] != '-' && line[at] != ' '; ++at)
      bound = bound * 16 + static_cast<uintptr_t>(line[at] <= '9' ? line[at] - '0' : line[at] - 'a' + 10);
    ++at;
  }
  const size_t path = line.find('/');
  return address >= bounds[0] && address < bounds[1] && path != line.npos ? line.substr(path)
                                                                          : std::string_view();
}

// Prints the path of the file that is mapped at an address. Uses no memory but the stack, as a signal
// handler.
void print_file_at(uintptr_t address) {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  std::array<char, 8192> bytes;  // longer than a line
  size_t size = 0;
  for (ssize_t count = 0; (count = ::read(maps, bytes.data() + size, bytes.size() - size)) > 0;) {
    size += static_cast<size_t>(count);
    std::string_view rest(bytes.data(), size);
    for (size_t end = 0; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1)) {
      const std::string_view path = path_at(rest.substr(0, end), address);
      if (path.empty()) continue;
      print(path);
      ::close(maps);
      return;
    }
    std::memmove(bytes.data(), rest.data(), rest.size());
    size = rest.size();
  }
  print("a mapped file");
}

[[maybe_unused]] void on_bus_error(int signal, siginfo_t* info, void* /*context*/) {
  print("qkv: ");
  print_file_at(reinterpret_cast<uintptr_t>(info->si_addr));
  print(": truncated, or unreadable, while it was open; replace files by renaming\n");
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void explain_bus_errors() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
#endif
}

}  // namespace qkv::apps
