#pragma once
// Reads a binary file that gzip may compress.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/text/text_file.h"

namespace qkv::data {

class BinaryFile {
 public:
  // Throws the errors of text::TextFile.
  explicit BinaryFile(const std::filesystem::path& path);

  // The next `bytes` bytes. Memory grows with the data that is there. `what` describes them in messages ("60
  // labels"). Throws DataError if the file ends before.
  std::vector<uint8_t> read(int64_t bytes, const std::string& what);
  // The rest of the file.
  std::vector<uint8_t> read_rest();
  // Throws DataError unless the file ends here, after `what`.
  void require_end(const std::string& what);

  const std::string& name() const { return file_.name(); }

 private:
  // Appends up to `bytes` bytes; the file has ended if there are fewer.
  void append(std::vector<uint8_t>& to, int64_t bytes);

  text::TextFile file_;
  int64_t most_;  // bytes that the file can hold, decompressed
};

}  // namespace qkv::data
