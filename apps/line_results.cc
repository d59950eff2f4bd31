#include "apps/line_results.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <sstream>
#include <system_error>

#include "apps/cli/given_options.h"
#include "apps/cli/messages.h"
#include "apps/cli/ranks.h"
#include "apps/load_options.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/base/mpi.h"
#include "qkv/hub/cache.h"
#include "qkv/kernels/instruction_set.h"
#include "qkv/pipelines/parts/content_hash.h"
#include "qkv/pipelines/parts/parts.h"

namespace qkv::apps {
namespace {

std::string unit_of(const LineArguments& arguments) { return arguments.texts.empty() ? "line" : "text"; }

pipelines::LineOptions line_options(const LineArguments& arguments) {
  pipelines::LineOptions options;
  options.chunk_lines = arguments.chunk_lines.value_or(options.chunk_lines);
  return options;
}

// Options on which results do not depend, or whose effect is part of the identity of a run by itself.
bool decides_results(const std::string& option) {
  static const std::set<std::string> others{
      "--input",        "--output",      "--chunk-lines",  "--threads",      "--config",
      "--rank-timeout", "--cache-bytes", "--batch-tokens", "--prefix-bytes", "--prefill-tokens"};
  return !others.contains(option);
}

// What decides the results of this command line.
std::vector<std::pair<std::string, std::string>> identity() {
  std::vector<std::pair<std::string, std::string>> all{
      {"build", pipelines::content_hash("/proc/self/exe")},
      {"instruction set", kernels::name_of(kernels::instruction_set())},
      {"command", selected_command()}};
  for (const GivenOption& option : given_options()) {
    if (!decides_results(option.name)) continue;
    std::vector<std::string> values = option.values;
    if (option.is_path()) {
      for (std::string& path : values) path = pipelines::content_hash(hub::model_folder(path));
    }
    all.emplace_back(option.name, join(values, " "));
  }
  return all;
}

// --output.
pipelines::LineCounts in_parts(
    const LineArguments& arguments,
    const std::function<pipelines::LineCounts(pipelines::LineChunk, LineOutput&)>& each) {
  return pipelines::run_parts(
      {.input = arguments.input,
       .output = arguments.output,
       .lines = line_options(arguments),
       .identity = identity(),
       .report = say},
      [&](pipelines::LineChunk chunk) {
        pipelines::PartResult result;
        std::ostringstream text;
        LineOutput output{.text = text, .messages = &result.messages};
        result.counts = each(std::move(chunk), output);
        result.text = std::move(text).str();
        return result;
      },
      *arguments.ranks);
}

}  // namespace

LineOptionsAdded add_line_options(Command& command, LineArguments& arguments, const std::string& inputs,
                                  ModelPath path) {
  add_model_argument(command, arguments.model, path);
  Option* texts =
      add_option(command, "text", arguments.texts, "TEXT", inputs + " (default: each line of stdin)");
  add_load_options(command, arguments.load);
  command.add_flag("--json", arguments.json, "Print one JSON object per line");
  add_option(command, "--chunk-lines", arguments.chunk_lines, "LINES",
             "Lines per chunk that the model processes, and of a part of --output: affects memory and\n"
             "speed, not results (default: 2048; 1 if stdin is a terminal)")
      ->check(at_least<int64_t>(1));
  Option* input = add_option(command, "--input", arguments.input, "FILE",
                             "File whose lines are the texts, for --output (default: stdin)");
  input->excludes(texts);
  Option* output = add_option(
      command, "--output", arguments.output, "FILE",
      "Write the results to FILE when all are there, by way of parts in FILE.parts: the same command "
      "started\n"
      "again computes those that are missing. Under mpirun or srun, all processes share the parts (default:\n"
      "stdout)");
  input->needs(output);
  output->needs(input);
  add_option(
      command, "--rank-timeout", arguments.rank_timeout, "SECONDS",
      "Under mpirun or srun: seconds without a sign of life after which a rank counts as lost and all\n"
      "processes end");
  add_threads_option(command);
  return {.texts = texts, .input = input, .output = output};
}

void run_on_ranks(Command& command, LineArguments& arguments, std::function<void()> body) {
  command.callback([&arguments, body = std::move(body)] {
    if (arguments.output.empty()) {
      if (const int count = launched_processes(); count > 1)
        throw UsageError(concat("expected --input FILE and --output FILE for the ", count,
                                " processes of the launcher, found none"));
      return body();
    }
    with_ranks(arguments.rank_timeout, [&](Communicator& ranks) {
      arguments.ranks = &ranks;
      arguments.load.device = device_of_rank(arguments.load.device, ranks);
      body();
    });
  });
}

pipelines::LineReader line_reader(const LineArguments& arguments, Inputs inputs) {
  pipelines::LineOptions options = line_options(arguments);
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

void report_line(const LineArguments& arguments, int64_t number, const std::string& message,
                 const LineOutput& output) {
  const std::string line = about_line(arguments, number, message);
  if (output.messages) return output.messages->push_back(line);
  output.text.flush();
  say(line);
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

pipelines::LineCounts for_each_chunk(
    const LineArguments& arguments, Inputs inputs,
    const std::function<pipelines::LineCounts(pipelines::LineChunk, LineOutput&)>& each) {
  if (arguments.ranks) return in_parts(arguments, each);
  pipelines::LineReader reader = line_reader(arguments, inputs);
  pipelines::LineCounts counts;
  LineOutput output{.text = std::cout};
  for (pipelines::LineChunk chunk; reader.next(chunk); flush_stdout())
    counts += each(std::move(chunk), output);
  return counts;
}

}  // namespace qkv::apps
