#pragma once
// Reads the bytes of a text file, decompressing gzip files.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace qkv::text {

// Reads forward once, so that pipes work. A file that begins with gzip's magic number (1f 8b) is
// decompressed, whatever its name; several members are concatenated.
class TextFile {
 public:
  // "-" is the process's standard input. Throws IoError if the file cannot be opened or is a folder.
  explicit TextFile(const std::filesystem::path& path);
  ~TextFile();
  TextFile(TextFile&&) noexcept;
  TextFile& operator=(TextFile&&) noexcept;

  // Reads up to `bytes` bytes; returns 0 at the end. Throws IoError if reading fails, DataError for damaged
  // or truncated compressed data, and for a text that begins as UTF-16.
  size_t read(char* data, size_t bytes);

  // The path or "stdin", for messages.
  const std::string& name() const { return name_; }

 private:
  struct Stream;
  std::string name_;
  bool begins_ = true;  // nothing was read
  std::unique_ptr<Stream> stream_;
};

// Calls `visit` with the text of a file, in pieces. Throws what TextFile throws.
void read_text_in_pieces(const std::filesystem::path& path,
                         const std::function<void(const char* data, size_t bytes)>& visit);

// The whole text of a file. Throws what TextFile throws.
std::string read_text(const std::filesystem::path& path);

// For a file that can be read only once, its kind: "stdin" for "-", "a pipe" for pipes, sockets and devices.
// Empty for other files and those that do not exist.
std::string_view readable_once(const std::filesystem::path& path);
// Throws UsageError "<field> <file>: expected a file, as <reason>, found <kind>" for such a file.
void require_readable_again(const char* field, const std::filesystem::path& file, const char* reason);

}  // namespace qkv::text
