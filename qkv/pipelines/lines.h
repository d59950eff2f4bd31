#pragma once
// Runs a pipeline over the lines of a stream, or over a list of texts.

#include <cstdint>
#include <istream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace qkv::pipelines {

// The bytes of a text that pipelines tokenize at most, which takes some hundred bytes of memory for each.
inline constexpr int64_t kMaxTextBytes = 1 << 20;

struct LineOptions {
  // Lines per chunk, and bytes per chunk: the pipeline runs over one chunk at a time. Larger chunks are
  // faster and use more memory.
  int64_t chunk_lines = 2048;
  int64_t chunk_bytes = 1 << 20;
  // Maximum bytes of a line. A longer line is not stored and its result is an error.
  int64_t max_line_bytes = kMaxTextBytes;
  int64_t first = 1;  // number of the first line

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// A line without its ending, LF or CRLF; the last line of a stream may have none.
struct Line {
  int64_t number = 0;  // from 1
  std::string text;
};

struct LineCounts {
  int64_t lines = 0, errors = 0;

  LineCounts& operator+=(const LineCounts& other) {
    lines += other.lines;
    errors += other.errors;
    return *this;
  }
};

// "3 of 10 lines failed", or texts.
std::string summary(const LineCounts& counts, const std::string& unit = "line");

// Consecutive lines.
struct LineChunk {
  // The valid lines, and the number of each.
  std::vector<std::string> texts;
  std::vector<int64_t> numbers;
  // For every line of the chunk, why it is invalid; empty: it is valid.
  std::vector<std::string> errors;
  int64_t first = 1;  // number of the chunk's first line
};

class LineReader {
 public:
  // Throws UsageError for bad options. The stream must outlive the reader.
  explicit LineReader(std::istream& in, const LineOptions& options = {});
  // Each text is a line, even if it contains line breaks.
  explicit LineReader(std::vector<std::string> texts, const LineOptions& options = {});

  // False after the last line. Throws IoError if reading fails.
  bool next(LineChunk& chunk);

 private:
  // Sets line_; the number of bytes of the whole line, or nothing after the last.
  std::optional<int64_t> read();

  std::istream* in_ = nullptr;  // null: texts_
  std::vector<std::string> texts_;
  LineOptions options_;
  int64_t read_ = 0;  // lines before the next one
  std::string line_;
};

// Runs a pipeline over the lines of a chunk: run(texts, line numbers) returns a result with an `error` for
// each text, and sink(line, result) receives the results of all lines in order. Throws the errors of these
// functions.
template <class Run, class Sink>
LineCounts for_each_line(LineChunk chunk, const Run& run, const Sink& sink) {
  LineCounts counts;
  auto results = run(std::span<const std::string>(chunk.texts), std::span<const int64_t>(chunk.numbers));
  size_t next = 0;
  for (size_t i = 0; i < chunk.errors.size(); ++i) {
    typename decltype(results)::value_type result{};
    Line line{.number = chunk.first + static_cast<int64_t>(i), .text = {}};
    if (chunk.errors[i].empty()) {
      line.text = std::move(chunk.texts[next]);
      result = std::move(results[next++]);
    } else {
      result.error = std::move(chunk.errors[i]);
    }
    ++counts.lines;
    counts.errors += result.error.empty() ? 0 : 1;
    sink(line, result);
  }
  return counts;
}

// The same for each chunk of the reader, and flush() after it. Also throws the errors of LineReader.
template <class Run, class Sink, class Flush>
LineCounts for_each_line(LineReader reader, const Run& run, const Sink& sink, const Flush& flush) {
  LineCounts counts;
  for (LineChunk chunk; reader.next(chunk); flush()) counts += for_each_line(std::move(chunk), run, sink);
  return counts;
}

}  // namespace qkv::pipelines
