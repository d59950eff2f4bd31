#pragma once
// Text files line by line.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace qkv::text {

// Holds one line in memory at a time. Lines end in LF or CRLF, which are not part of them; the last one need
// not end. A byte order mark at the beginning of the file is left out.
class LineReader {
 public:
  // Throws IoError if the file cannot be opened.
  explicit LineReader(std::filesystem::path path);

  // The next line into `line`; false after the last. Throws IoError if reading fails.
  bool next(std::string& line);

  int64_t lines() const { return lines_; }  // how many were read; also the 1-based number of the last one
  const std::filesystem::path& path() const { return path_; }

  // Throws DataError naming the file, the line's number and the byte's position in it, if the line that was
  // read last is not UTF-8.
  void require_utf8(const std::string& line) const;

 private:
  std::filesystem::path path_;
  std::vector<char> buffer_;
  std::ifstream stream_;
  int64_t lines_ = 0;
};

// The number of lines of a file, as LineReader counts them. Throws IoError.
int64_t count_lines(const std::filesystem::path& path);

}  // namespace qkv::text
