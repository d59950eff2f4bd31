#include "apps/line_results.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "apps/cli/messages.h"
#include "apps/load_options.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"

namespace qkv::apps {
namespace {

std::string unit_of(const LineArguments& arguments) { return arguments.texts.empty() ? "line" : "text"; }

}  // namespace

Option* add_line_options(Command& command, LineArguments& arguments, const std::string& inputs,
                         ModelPath path) {
  add_model_argument(command, arguments.model, path);
  Option* texts =
      add_option(command, "text", arguments.texts, "TEXT", inputs + " (default: each line of stdin)");
  add_load_options(command, arguments.load);
  command.add_flag("--json", arguments.json, "Print one JSON object per line");
  add_option(command, "--chunk-lines", arguments.chunk_lines, "LINES",
             "Lines per chunk that the model processes: affects memory and speed, not results\n"
             "(default: 2048; 1 if stdin is a terminal)")
      ->check(at_least<int64_t>(1));
  add_threads_option(command);
  return texts;
}

pipelines::LineReader line_reader(const LineArguments& arguments, Inputs inputs) {
  pipelines::LineOptions options;
  options.chunk_lines = arguments.chunk_lines.value_or(options.chunk_lines);
  for (const std::string& text : arguments.texts) {
    std::error_code ignored;
    if (inputs == Inputs::texts && std::filesystem::is_regular_file(std::filesystem::status(text, ignored)))
      say(concat("warning: '", text,
                 "' is the name of a file, and taken as a text; '<' before it reads its lines"));
  }
  if (!arguments.texts.empty()) return pipelines::LineReader(arguments.texts, options);
  announce_stdin();
  std::ios::sync_with_stdio(false);
  std::cin.tie(nullptr);
  if (!arguments.chunk_lines && stdin_is_terminal()) options.chunk_lines = 1;
  return pipelines::LineReader(std::cin, options);
}

std::string about_line(const LineArguments& arguments, int64_t number, const std::string& message) {
  return concat(unit_of(arguments), " ", number, ": ", message);
}

void report_line(const LineArguments& arguments, int64_t number, const std::string& message) {
  std::cout.flush();
  say(about_line(arguments, number, message));
}

std::string failed_line(const LineArguments& arguments, int64_t number, const std::string& message) {
  std::string line = concat("error: ", about_line(arguments, number, message));
  std::ranges::replace(line, '\n', ' ');
  return line;
}

void flush_stdout() {
  errno = 0;
  std::cout.flush();
  if (std::cout) return;
  const std::string reason = errno != 0 ? std::generic_category().message(errno) : "is the disk full?";
  const int mode = ::fcntl(STDOUT_FILENO, F_GETFL);
  const bool closed = mode < 0 || (mode & O_ACCMODE) == O_RDONLY;
  throw IoError(concat("cannot write to stdout: ", closed ? "it is closed" : reason));
}

void end_lines(const LineArguments& arguments, const pipelines::LineCounts& counts) {
  if (counts.errors == 0) return;
  say(summary(counts, unit_of(arguments)));
  throw ExitStatus{1};
}

}  // namespace qkv::apps
