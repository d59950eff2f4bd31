#pragma once
// The bytes of a text file, whether it is compressed by gzip or not.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace qkv::text {

// Reads forward once, so that a pipe will do. A file that begins as gzip does (1f 8b) is decompressed,
// whatever its name; several members end to end are one text.
class TextFile {
 public:
  // "-" is the process's standard input. Throws IoError if the file cannot be opened or is a folder.
  explicit TextFile(const std::filesystem::path& path);
  ~TextFile();
  TextFile(TextFile&&) noexcept;
  TextFile& operator=(TextFile&&) noexcept;

  // Up to `bytes` of them; 0 at the end. Throws IoError if reading fails, DataError for compressed data that
  // are damaged or cut off.
  size_t read(char* data, size_t bytes);

  // The path, or "stdin": as messages name it.
  const std::string& name() const { return name_; }

 private:
  struct Stream;
  std::string name_;
  std::unique_ptr<Stream> stream_;
};

// Calls `visit` with the text of a file, in pieces. Throws what TextFile throws.
void read_text_in_pieces(const std::filesystem::path& path,
                         const std::function<void(const char* data, size_t bytes)>& visit);

}  // namespace qkv::text
