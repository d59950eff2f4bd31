#pragma once
// Reads text files line by line.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/text/text_file.h"

namespace qkv::text {

// White space of ASCII.
inline constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";
// Nothing but white space.
bool is_blank(std::string_view line);
// The text without these characters at its ends.
std::string_view trimmed(std::string_view text, std::string_view characters = kWhiteSpace);

// Holds one line in memory at a time. Lines end in LF or CRLF, which is removed; the last one may lack it. A
// byte order mark at the beginning of the file is skipped. Files may be compressed by gzip; "-" is stdin
// (text_file.h).
class LineReader {
 public:
  // Throws IoError if the file cannot be opened.
  explicit LineReader(const std::filesystem::path& path);

  // Reads the next line; false at the end. Throws IoError if reading fails, DataError for damaged
  // compressed data.
  bool next(std::string& line);

  int64_t lines() const { return lines_; }  // lines read so far; also the 1-based number of the last one
  const std::filesystem::path& path() const { return path_; }

  // Throws DataError naming the file, the line's number and the byte's position in it, if the last line is
  // not UTF-8.
  void require_utf8(const std::string& line) const;

 private:
  bool fill();

  TextFile file_;
  std::filesystem::path path_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // the unread part of the buffer
  int64_t lines_ = 0;
};

// The number of lines of a file as counted by LineReader. Throws IoError.
int64_t count_lines(const std::filesystem::path& path);

}  // namespace qkv::text
