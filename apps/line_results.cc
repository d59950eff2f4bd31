#include "apps/line_results.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "apps/cli/messages.h"
#include "apps/load_options.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"

namespace qkv::apps {

void add_line_options(Command& command, LineArguments& arguments) {
  add_option(command, "model", arguments.model, "DIR", "Model folder")->required();
  add_load_options(command, arguments.load);
  command.add_flag("--json", arguments.json, "Print one JSON object per line");
  add_option(command, "--chunk-lines", arguments.chunk_lines, "LINES",
             "Lines per chunk that the model processes: affects memory and speed, not results\n"
             "(default: 2048; 1 if stdin is a terminal)");
  add_threads_option(command);
}

pipelines::LineOptions stdin_options(std::optional<int64_t> chunk_lines) {
  if (chunk_lines && *chunk_lines < 1) {
    throw UsageError(concat("--chunk-lines: expected at least 1, found ", *chunk_lines));
  }
  announce_stdin();
  std::ios::sync_with_stdio(false);
  std::cin.tie(nullptr);
  pipelines::LineOptions options;
  options.chunk_lines = chunk_lines.value_or(stdin_is_terminal() ? 1 : options.chunk_lines);
  return options;
}

void report_line(int64_t line, const std::string& message) { say(concat("line ", line, ": ", message)); }

void flush_stdout() {
  errno = 0;
  std::cout.flush();
  if (std::cout) return;
  const std::string reason = errno != 0 ? std::generic_category().message(errno) : "is the disk full?";
  const int mode = ::fcntl(STDOUT_FILENO, F_GETFL);
  const bool closed = mode < 0 || (mode & O_ACCMODE) == O_RDONLY;
  throw IoError(concat("cannot write to stdout: ", closed ? "it is closed" : reason));
}

void end_lines(const pipelines::LineCounts& counts) {
  if (counts.errors == 0) return;
  say(summary(counts));
  throw ExitStatus{1};
}

}  // namespace qkv::apps
