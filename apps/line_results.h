#pragma once
// Commands that run a pipeline over texts, given as arguments or as lines of stdin, and print a result for
// each.

#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/command.h"
#include "apps/load_options.h"
#include "qkv/base/communicator.h"
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
  // Both, or neither: stdin to stdout.
  std::string input, output;
  double rank_timeout = 30;
  Communicator* ranks = nullptr;  // with `output`
};

// What receives the results of a command, and its messages about lines.
struct LineOutput {
  std::ostream& text;
  std::vector<std::string>* messages = nullptr;  // null: stderr
};

enum class Inputs { texts, image_files };

// The model, the texts, --dtype, --json, --input, --output, --chunk-lines, --rank-timeout and --threads.
// `arguments` must live as long as the command.
struct LineOptionsAdded {
  Option *texts, *input, *output;
};
LineOptionsAdded add_line_options(Command& command, LineArguments& arguments,
                                  const std::string& inputs = "Texts", ModelPath path = ModelPath::folder);

// Runs `body` when the command is selected: with --output on each rank of the launch, which then share the
// lines.
void run_on_ranks(Command& command, LineArguments& arguments, std::function<void()> body);

// The texts, or the lines of stdin; those from a terminal are processed one by one. Warns of a text that is
// the name of a file. Throws UsageError.
pipelines::LineReader line_reader(const LineArguments& arguments, Inputs inputs = Inputs::texts);

// "line 3: message", or "text 3: message" if the texts are arguments.
std::string about_line(const LineArguments& arguments, int64_t number, const std::string& message);

// Prints "qkv: line 3: ..." on stderr, after what is printed on stdout.
void report_line(const LineArguments& arguments, int64_t number, const std::string& message,
                 const LineOutput& output = {.text = std::cout});

// What plain output has in the place of a failed line: "error: line 3: ..." on one line.
std::string failed_line(const LineArguments& arguments, int64_t number, const std::string& message);

// Throws IoError if stdout cannot be written.
void flush_stdout();

// If lines have failed, prints "qkv: 3 of 10 lines failed" and throws exit status 1.
void end_lines(const LineArguments& arguments, const pipelines::LineCounts& counts);

// Runs `each`, which returns its counts, over the chunks of the texts, to stdout or in parts of --output.
// Returns the counts of all; on ranks that are not the root, zeros.
pipelines::LineCounts for_each_chunk(
    const LineArguments& arguments, Inputs inputs,
    const std::function<pipelines::LineCounts(pipelines::LineChunk, LineOutput&)>& each);

// Runs a pipeline over the texts: run(texts, line numbers, output) returns a result with an `error` for each;
// text(result, line) is its plain output, json(result) its JSON object. Of images, the file's name precedes
// the result, or is the JSON object's "file". A failed line gives a message on stderr and failed_line(), or
// {"line", "error"}; the exit status is then 1.
template <class Run, class Text, class Json>
void print_results(const LineArguments& arguments, Inputs inputs, const Run& run, const Text& text,
                   const Json& json) {
  const auto each = [&](pipelines::LineChunk chunk, LineOutput& output) {
    return pipelines::for_each_line(
        std::move(chunk), [&](auto texts, auto numbers) { return run(texts, numbers, output); },
        [&](const pipelines::Line& line, const auto& result) {
          const bool files = inputs == Inputs::image_files, failed = !result.error.empty();
          if (failed) report_line(arguments, line.number, result.error, output);
          if (arguments.json) {
            output.text << pipelines::with_line(line.number, json(result), files ? line.text : "");
          } else {
            if (files) output.text << line.text << '\t';
            output.text << (failed ? failed_line(arguments, line.number, result.error) : text(result, line));
          }
          output.text << '\n';
        });
  };
  end_lines(arguments, for_each_chunk(arguments, inputs, each));
}

}  // namespace qkv::apps
