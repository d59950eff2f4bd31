#pragma once
// Commands that run a pipeline over texts, given as arguments or as lines of stdin, and print a result for
// each.

#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/load_options.h"
#include "qkv/models/hub/load_options.h"
#include "qkv/pipelines/json.h"
#include "qkv/pipelines/lines.h"

namespace qkv::apps {

struct LineArguments {
  std::string model;
  std::vector<std::string> texts;  // none: the lines of stdin
  models::LoadOptions load;
  bool json = false;
  std::optional<int64_t> chunk_lines;
};

enum class Inputs { texts, image_files };

// The model, the texts, --dtype, --json, --chunk-lines and --threads. Returns the argument of the
// texts. `arguments` must live as long as the command.
Option* add_line_options(Command& command, LineArguments& arguments, const std::string& inputs = "Texts",
                         ModelPath path = ModelPath::folder);

// The texts, or the lines of stdin; those from a terminal are processed one by one. Warns of a text that is
// the name of a file. Throws UsageError.
pipelines::LineReader line_reader(const LineArguments& arguments, Inputs inputs = Inputs::texts);

// "line 3: message", or "text 3: message" if the texts are arguments.
std::string about_line(const LineArguments& arguments, int64_t number, const std::string& message);

// Prints "qkv: line 3: ..." on stderr, after what is printed on stdout.
void report_line(const LineArguments& arguments, int64_t number, const std::string& message);

// What plain output has in the place of a failed line: "error: line 3: ..." on one line.
std::string failed_line(const LineArguments& arguments, int64_t number, const std::string& message);

// Throws IoError if stdout cannot be written.
void flush_stdout();

// If lines have failed, prints "qkv: 3 of 10 lines failed" and throws exit status 1.
void end_lines(const LineArguments& arguments, const pipelines::LineCounts& counts);

// Runs a pipeline over the texts: run(texts, line numbers) returns a result with an `error` for each;
// text(result, line) is its plain output, json(result) its JSON object. Of images, the file's name precedes
// the result, or is the JSON object's "file". A failed line gives a message on stderr and failed_line(), or
// {"line", "error"}; the exit status is then 1.
template <class Run, class Text, class Json>
void print_results(const LineArguments& arguments, Inputs inputs, const Run& run, const Text& text,
                   const Json& json) {
  end_lines(arguments, pipelines::for_each_line(
                           line_reader(arguments, inputs), run,
                           [&](const pipelines::Line& line, const auto& result) {
                             const bool files = inputs == Inputs::image_files, failed = !result.error.empty();
                             if (failed) report_line(arguments, line.number, result.error);
                             if (arguments.json) {
                               std::cout
                                   << pipelines::with_line(line.number, json(result), files ? line.text : "");
                             } else {
                               if (files) std::cout << line.text << '\t';
                               std::cout << (failed ? failed_line(arguments, line.number, result.error)
                                                    : text(result, line));
                             }
                             std::cout << '\n';
                           },
                           flush_stdout));
}

}  // namespace qkv::apps
