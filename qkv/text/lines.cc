#include "qkv/text/lines.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"

namespace qkv::text {

bool is_blank(std::string_view line) { return line.find_first_not_of(kWhiteSpace) == line.npos; }

std::string_view trimmed(std::string_view text, std::string_view characters) {
  const size_t begin = text.find_first_not_of(characters);
  return begin == text.npos ? text.substr(0, 0)
                            : text.substr(begin, text.find_last_not_of(characters) + 1 - begin);
}

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kBufferBytes = size_t{1} << 18;

}  // namespace

LineReader::LineReader(const std::filesystem::path& path)
    : file_(path), path_(file_.name()), buffer_(kBufferBytes) {}

bool LineReader::fill() {
  begin_ = 0;
  end_ = file_.read(buffer_.data(), buffer_.size());
  return end_ > 0;
}

bool LineReader::next(std::string& line) {
  line.clear();
  if (begin_ == end_ && !fill()) return false;
  for (bool more = true; more;) {
    const std::string_view left(buffer_.data() + begin_, end_ - begin_);
    const size_t length = std::min(left.find('\n'), left.size());
    line.append(left.substr(0, length));
    const bool ended = length < left.size();
    begin_ += length + (ended ? 1 : 0);
    more = !ended && fill();
  }
  if (line.ends_with('\r')) line.pop_back();
  if (lines_++ == 0 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
  return true;
}

void LineReader::require_utf8(const std::string& line) const {
  const auto bad = first_bad_utf8(line);
  if (!bad) return;
  char byte[8];
  std::snprintf(byte, sizeof(byte), "0x%02X", static_cast<unsigned>(static_cast<unsigned char>(line[*bad])));
  throw DataError(concat(path_.string(), ", line ", lines_, ", byte ", *bad + 1,
                         ": expected UTF-8, found the byte ", byte, " that is invalid there"));
}

int64_t count_lines(const std::filesystem::path& path) {
  LineReader reader(path);
  std::string line;
  while (reader.next(line)) {
  }
  return reader.lines();
}

}  // namespace qkv::text
