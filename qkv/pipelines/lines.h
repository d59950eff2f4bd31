#pragma once
// Any pipeline over the lines of a stream.

#include <cstdint>
#include <istream>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace qkv::pipelines {

struct LineOptions {
  // Lines, and bytes of them, that are read before the pipeline runs over them together: memory against
  // speed.
  int64_t chunk_lines = 2048;
  int64_t chunk_bytes = 1 << 20;
  // Bytes of the longest line. Of a longer one no more is kept, and its result is an error.
  int64_t max_line_bytes = 1 << 20;

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// A line without its end, which is LF or CRLF; the last line of a stream may have none.
struct Line {
  int64_t number = 0;  // from 1
  std::string text;
};

struct LineCounts {
  int64_t lines = 0, errors = 0;
};

// "3 of 10 lines failed".
std::string summary(const LineCounts& counts);

// Some lines of a stream.
struct LineChunk {
  // The lines that a pipeline can take, and the number of each.
  std::vector<std::string> texts;
  std::vector<int64_t> numbers;
  // Of every line of the chunk: why it is not among them; empty: it is.
  std::vector<std::string> errors;
  int64_t first = 1;  // the number of the chunk's first line
};

class LineReader {
 public:
  // Throws UsageError for bad options. The stream must outlive the reader.
  explicit LineReader(std::istream& in, const LineOptions& options = {});

  // False after the last line. Throws IoError if reading fails.
  bool next(LineChunk& chunk);

 private:
  std::istream& in_;
  LineOptions options_;
  int64_t read_ = 0;
  std::string line_;
};

// Runs a pipeline over a stream: run(texts, numbers of their lines) gives a result with an `error` for each
// text, sink(line, result) takes the results of all lines in their order, and flush() follows each chunk.
// Throws what these and LineReader throw.
template <class Run, class Sink, class Flush>
LineCounts for_each_line(std::istream& in, const LineOptions& options, const Run& run, const Sink& sink,
                         const Flush& flush) {
  LineReader reader(in, options);
  LineCounts counts;
  for (LineChunk chunk; reader.next(chunk); flush()) {
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
  }
  return counts;
}

}  // namespace qkv::pipelines
