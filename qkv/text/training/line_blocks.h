#pragma once
// Reads text files in blocks of whole lines, for work on several threads.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/text/text_file.h"

namespace qkv::text {

// Holds a block and the rest of a line in memory. Lines keep their ends (LF or CRLF); a byte order mark at
// the beginning of a file is skipped. No block has lines of two files.
class LineBlocks {
 public:
  // Lines that are not UTF-8 are skipped or an error.
  LineBlocks(std::vector<std::filesystem::path> inputs, bool skip_bad_utf8);

  // Reads the next block: valid UTF-8, of about 1 MiB or one longer line. False after the last file. Throws
  // IoError; DataError for damaged compressed data, for a line that is not UTF-8 (naming file, line and
  // byte), and for a line of 1 GiB or more.
  bool next(std::string& block);

  int64_t lines() const { return lines_; }  // read so far, without the skipped ones
  int64_t skipped_lines() const { return skipped_; }

 private:
  bool open_next_file();
  void take_lines(std::string& block);
  void add_line(std::string_view line, std::string& block);

  std::vector<std::filesystem::path> inputs_;
  bool skip_bad_utf8_;
  size_t file_ = 0;  // the next one
  std::unique_ptr<TextFile> reader_;
  std::string held_;    // read, not yet in a block
  bool ended_ = false;  // the file has no more than `held_`
  int64_t lines_ = 0, skipped_ = 0;
  int64_t file_lines_ = 0;  // of this file
};

// Calls each(line) for each line of a block, with its end.
template <class Each>
void for_each_line_of(std::string_view block, Each each) {
  while (!block.empty()) {
    const size_t end = block.find('\n');
    const size_t length = end == block.npos ? block.size() : end + 1;
    each(block.substr(0, length));
    block.remove_prefix(length);
  }
}

}  // namespace qkv::text
