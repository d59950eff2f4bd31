#pragma once
// A command that says something about each line of stdin.

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "apps/command.h"
#include "qkv/models/hub/load_options.h"

namespace qkv::apps {

// What most of these commands are told.
struct LineArguments {
  std::string model;
  models::LoadOptions load;
  bool json = false;
  std::optional<int64_t> chunk_lines;
};

// The model folder, --weights, --json, --chunk-lines and --threads. `arguments` has to live as long as the
// command.
void add_line_options(CLI::App& command, LineArguments& arguments);

// Says it of one line: its text for people, or its JSON object.
class LinePrinter {
 public:
  explicit LinePrinter(bool json) : json_(json) {}

  // A line that nothing can be said of: a message on stderr, and an empty line or {"line", "error"}.
  void error(int64_t line, const std::string& message);
  void text(const std::string& text);
  void object(int64_t line, const nlohmann::ordered_json& fields);
  int64_t errors() const { return errors_; }

 private:
  bool json_;
  int64_t errors_ = 0;
};

// Reads stdin to its end, some lines at a time (one, where somebody types them), calls say(number of the
// first, lines, printer), and ends with status 1 where a line had an error.
void for_lines(
    const LineArguments& arguments,
    const std::function<void(int64_t first, std::span<const std::string> lines, LinePrinter& printer)>& say);

// A line of stdin.
struct Line {
  int64_t number = 0;  // from 1
  const std::string& text;
};

// The same where each line has a result of its own with an `error`: find(number of the first, lines) gives
// the results, text(result, line) what people read of one, fields(result, line) its JSON object.
template <class Find, class Text, class Fields>
void print_results(const LineArguments& arguments, const Find& find, const Text& text, const Fields& fields) {
  for_lines(arguments, [&](int64_t first, std::span<const std::string> lines, LinePrinter& printer) {
    const auto results = find(first, lines);
    for (size_t i = 0; i < results.size(); ++i) {
      const Line line{first + static_cast<int64_t>(i), lines[i]};
      if (!results[i].error.empty()) {
        printer.error(line.number, results[i].error);
      } else if (arguments.json) {
        printer.object(line.number, fields(results[i], line));
      } else {
        printer.text(text(results[i], line));
      }
    }
  });
}

}  // namespace qkv::apps
