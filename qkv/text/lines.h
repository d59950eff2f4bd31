#pragma once
// Reads text files line by line.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace qkv::text {

// Holds one line in memory at a time. Lines end in LF or CRLF, which is removed; the last one may lack it. A
// byte order mark at the beginning of the file is skipped.
class LineReader {
 public:
  // Throws IoError if the file cannot be opened.
  explicit LineReader(std::filesystem::path path);

  // Reads the next line; false at the end. Throws IoError if reading fails.
  bool next(std::string& line);

  int64_t lines() const { return lines_; }  // lines read so far; also the 1-based number of the last one
  const std::filesystem::path& path() const { return path_; }

  // Throws DataError naming the file, the line's number and the byte's position in it, if the last line is
  // not UTF-8.
  void require_utf8(const std::string& line) const;

 private:
  std::filesystem::path path_;
  std::vector<char> buffer_;
  std::ifstream stream_;
  int64_t lines_ = 0;
};

// The number of lines of a file as counted by LineReader. Throws IoError.
int64_t count_lines(const std::filesystem::path& path);

}  // namespace qkv::text
