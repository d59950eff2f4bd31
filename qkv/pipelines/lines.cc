#include "qkv/pipelines/lines.h"

#include <algorithm>
#include <utility>

#include "qkv/base/error.h"

namespace qkv::pipelines {
namespace {

// Reads the next line without its line ending; `line` holds its first `limit` bytes. Returns its length in
// bytes, or nothing at the end of the stream. Reads from the buffer, whose errors the stream would turn into
// an end of the lines.
std::optional<int64_t> read_line(std::istream& in, int64_t limit, std::string& line) {
  constexpr int kEnd = std::istream::traits_type::eof();
  line.clear();
  const std::istream::sentry ready(in, /*noskipws=*/true);
  if (!ready) return std::nullopt;
  std::streambuf& buffer = *in.rdbuf();
  int next = buffer.sbumpc();
  if (next == kEnd) {
    in.setstate(std::ios_base::eofbit);
    return std::nullopt;
  }
  int64_t length = 0;
  char last = 0;
  for (; next != kEnd && next != '\n'; next = buffer.sbumpc()) {
    last = static_cast<char>(next);
    if (length++ < limit) line.push_back(last);
  }
  if (last == '\r') {
    --length;
    line.resize(std::min(line.size(), static_cast<size_t>(length)));
  }
  return length;
}

void require_positive(const char* field, int64_t value) {
  if (value < 1) throw UsageError(concat(field, ": expected at least 1, found ", value));
}

}  // namespace

void LineOptions::validate() const {
  require_positive("chunk_lines", chunk_lines);
  require_positive("chunk_bytes", chunk_bytes);
  require_positive("max_line_bytes", max_line_bytes);
  require_positive("first", first);
}

std::string summary(const LineCounts& counts, const std::string& unit) {
  return concat(counts.errors, " of ", counts.lines, " ", unit, counts.lines == 1 ? "" : "s", " failed");
}

LineReader::LineReader(std::istream& in, const LineOptions& options)
    : in_(&in), options_(options), read_(options.first - 1) {
  options_.validate();
}

LineReader::LineReader(std::vector<std::string> texts, const LineOptions& options)
    : texts_(std::move(texts)), options_(options) {
  options_.validate();
}

std::optional<int64_t> LineReader::read() {
  if (in_ == nullptr) {
    if (read_ == std::ssize(texts_)) return std::nullopt;
    const std::string& text = texts_[static_cast<size_t>(read_)];
    line_ = text.substr(0, static_cast<size_t>(options_.max_line_bytes));
    return std::ssize(text);
  }
  try {
    const std::optional<int64_t> length = read_line(*in_, options_.max_line_bytes, line_);
    if (!in_->bad()) return length;
  } catch (const std::ios_base::failure& error) {
    throw IoError(concat("input: cannot be read after line ", read_, ": ", error.code().message()));
  }
  throw IoError(concat("input: cannot be read after line ", read_));
}

bool LineReader::next(LineChunk& chunk) {
  chunk = {.texts = {}, .numbers = {}, .errors = {}, .first = read_ + 1};
  int64_t bytes = 0;
  while (std::ssize(chunk.errors) < options_.chunk_lines && bytes < options_.chunk_bytes) {
    const std::optional<int64_t> length = read();
    if (!length) break;
    ++read_;
    bytes += std::ssize(line_);
    if (*length > options_.max_line_bytes) {
      chunk.errors.push_back(concat("expected at most ", options_.max_line_bytes, " bytes, found ", *length));
    } else {
      chunk.errors.emplace_back();
      chunk.texts.push_back(line_);
      chunk.numbers.push_back(read_);
    }
  }
  return !chunk.errors.empty();
}

}  // namespace qkv::pipelines
