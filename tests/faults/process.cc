#include "tests/faults/process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace qkv::faults {
namespace {

constexpr unsigned kSeconds = 60;

void redirect(int stream, const std::string& file, int flags) {
  const int descriptor = ::open(file.c_str(), flags | O_CLOEXEC, 0644);
  if (descriptor < 0 || ::dup2(descriptor, stream) < 0) ::_exit(127);
}

}  // namespace

std::string read_whole(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_whole(const std::filesystem::path& file, const std::string& content) {
  std::ofstream stream(file, std::ios::binary);
  stream << content;
  if (!stream.flush()) throw std::runtime_error("cannot write " + file.string());
}

Outcome run_process(const std::vector<std::string>& command, const std::filesystem::path& scratch,
                    const ProcessOptions& options) {
  const std::string in = scratch / "stdin", err = scratch / "stderr";
  const std::string out = options.stdout_to.empty() ? (scratch / "stdout").string() : options.stdout_to;
  write_whole(in, options.input);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    redirect(STDIN_FILENO, in, O_RDONLY);
    redirect(STDOUT_FILENO, out, O_WRONLY | O_CREAT | O_TRUNC);
    redirect(STDERR_FILENO, err, O_WRONLY | O_CREAT | O_TRUNC);
    for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
    if (options.address_space > 0) {
      const rlimit limit{.rlim_cur = options.address_space, .rlim_max = options.address_space};
      ::setrlimit(RLIMIT_AS, &limit);
    }
    ::alarm(kSeconds);  // survives exec
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = options.stdout_to.empty() ? read_whole(out) : std::string(),
          .err = read_whole(err)};
}

}  // namespace qkv::faults
