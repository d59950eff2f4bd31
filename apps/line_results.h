#pragma once
// Commands that run a pipeline over the lines of stdin and print a result for each.

#include <functional>
#include <iostream>
#include <optional>
#include <string>

#include "apps/command.h"
#include "qkv/models/hub/load_options.h"
#include "qkv/pipelines/json.h"
#include "qkv/pipelines/lines.h"

namespace qkv::apps {

struct LineArguments {
  std::string model;
  models::LoadOptions load;
  bool json = false;
  std::optional<int64_t> chunk_lines;
};

// The model folder, --dtype, --json, --chunk-lines and --threads. `arguments` must live as long as the
// command.
void add_line_options(Command& command, LineArguments& arguments);

// The options for reading stdin; lines from a terminal are processed one by one. Throws UsageError.
pipelines::LineOptions stdin_options(std::optional<int64_t> chunk_lines);

// Prints "qkv: line 3: ..." on stderr.
void report_line(int64_t line, const std::string& message);

// Throws IoError if stdout cannot be written.
void flush_stdout();

// If lines have failed, prints "qkv: 3 of 10 lines failed" and throws exit status 1.
void end_lines(const pipelines::LineCounts& counts);

// Runs a pipeline over stdin: run(texts, line numbers) returns a result with an `error` for each text;
// text(result, line) is its plain output, json(result) its JSON object. A failed line gives a message on
// stderr and an empty line, or {"line", "error"}; the exit status is then 1.
template <class Run, class Text, class Json>
void print_results(const LineArguments& arguments, const Run& run, const Text& text, const Json& json) {
  end_lines(pipelines::for_each_line(
      std::cin, stdin_options(arguments.chunk_lines), run,
      [&](const pipelines::Line& line, const auto& result) {
        if (!result.error.empty()) report_line(line.number, result.error);
        if (arguments.json) {
          std::cout << pipelines::with_line(line.number, json(result)) << '\n';
        } else {
          std::cout << (result.error.empty() ? text(result, line) : std::string()) << '\n';
        }
      },
      flush_stdout));
}

}  // namespace qkv::apps
