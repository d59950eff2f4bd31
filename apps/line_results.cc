#include "apps/line_results.h"

#include <unistd.h>

#include <iostream>
#include <vector>

#include "qkv/base/error.h"

namespace qkv::apps {
namespace {

void print(const nlohmann::ordered_json& object) {
  // What is no UTF-8 can come out of byte tokens.
  std::cout << object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

}  // namespace

void add_line_options(CLI::App& command, LineArguments& arguments) {
  command.add_option("model", arguments.model, "Model folder")->required()->type_name("DIR");
  add_weights_option(command, arguments.load.weights);
  command.add_flag("--json", arguments.json, "Print a JSON object for each line");
  command.add_option("--chunk-lines", arguments.chunk_lines,
                     "Lines read before they are worked on (default: 1024; 1 where stdin is a terminal)");
  add_threads_option(command);
}

void LinePrinter::error(int64_t line, const std::string& message) {
  ++errors_;
  std::cerr << "qkv: line " << line << ": " << message << '\n';
  json_ ? print({{"line", line}, {"error", message}}) : text("");
}

void LinePrinter::text(const std::string& text) { std::cout << text << '\n'; }

void LinePrinter::object(int64_t line, const nlohmann::ordered_json& fields) {
  nlohmann::ordered_json object{{"line", line}};
  object.update(fields);
  print(object);
}

void for_lines(
    const LineArguments& arguments,
    const std::function<void(int64_t first, std::span<const std::string> lines, LinePrinter& printer)>& say) {
  const int64_t chunk = arguments.chunk_lines.value_or(::isatty(STDIN_FILENO) == 1 ? 1 : 1024);
  if (chunk < 1) throw UsageError(concat("--chunk-lines: expected at least 1, found ", chunk));
  std::ios::sync_with_stdio(false);
  std::cin.tie(nullptr);
  LinePrinter printer(arguments.json);
  std::vector<std::string> lines;
  int64_t done = 0;
  const auto flush = [&] {
    if (lines.empty()) return;
    say(done + 1, lines, printer);
    done += std::ssize(lines);
    lines.clear();
    std::cout.flush();
    if (!std::cout) throw IoError("cannot write to stdout: is the disk full?");
  };
  for (std::string line; std::getline(std::cin, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(std::move(line));
    if (std::ssize(lines) >= chunk) flush();
  }
  if (std::cin.bad()) throw IoError(concat("input: reading failed after line ", done + std::ssize(lines)));
  flush();
  if (printer.errors() > 0) {
    std::cerr << "qkv: nothing could be said of " << printer.errors() << " of " << done << " lines\n";
    throw ExitStatus{1};
  }
}

}  // namespace qkv::apps
