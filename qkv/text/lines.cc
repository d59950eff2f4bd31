#include "qkv/text/lines.h"

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"

namespace qkv::text {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kBufferBytes = size_t{1} << 18;

}  // namespace

LineReader::LineReader(std::filesystem::path path) : path_(std::move(path)), buffer_(kBufferBytes) {
  if (std::filesystem::is_directory(path_))
    throw IoError(concat("cannot read ", path_.string(), ": it is a folder"));
  stream_.rdbuf()->pubsetbuf(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  errno = 0;
  stream_.open(path_, std::ios::binary);
  if (!stream_) {
    throw IoError(concat("cannot open ", path_.string(), ": ", std::generic_category().message(errno)));
  }
}

bool LineReader::next(std::string& line) {
  if (!std::getline(stream_, line)) {
    if (stream_.bad()) throw IoError(concat("cannot read ", path_.string(), " after line ", lines_));
    return false;
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
