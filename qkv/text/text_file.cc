#include "qkv/text/text_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "qkv/base/error.h"

namespace qkv::text {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 18;

std::string reason() { return std::generic_category().message(errno); }

// The name of UTF-16 if a text begins so: with a byte order mark, or with Latin letters, of which every other
// byte is zero. Empty for other texts.
std::string_view utf16_name(std::string_view text) {
  if (text.starts_with("\xFF\xFE")) return "UTF-16LE";
  if (text.starts_with("\xFE\xFF")) return "UTF-16BE";
  constexpr size_t kLeast = 4, kMost = 256;
  text = text.substr(0, kMost);
  size_t zeros[2] = {0, 0};  // at even and odd places
  for (size_t i = 0; i < text.size(); ++i) zeros[i % 2] += text[i] == '\0' ? 1 : 0;
  const bool half_zeros = text.size() >= kLeast && zeros[0] + zeros[1] >= text.size() / 3;
  if (!half_zeros || (zeros[0] > 0 && zeros[1] > 0)) return {};
  return zeros[0] == 0 ? "UTF-16LE" : "UTF-16BE";
}

}  // namespace

struct TextFile::Stream {
  explicit Stream(gzFile opened) : file(opened) {}
  ~Stream() { gzclose(file); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  gzFile file;
};

TextFile::TextFile(const std::filesystem::path& path) : name_(path == "-" ? "stdin" : path.string()) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw IoError(concat("cannot read ", name_, ": it is a folder"));
  const int descriptor = path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw IoError(concat("cannot open ", name_, ": ", reason()));
  const gzFile opened = gzdopen(descriptor, "rb");
  if (opened == nullptr) {
    ::close(descriptor);
    throw IoError(concat("cannot open ", name_, ": out of memory"));
  }
  stream_ = std::make_unique<Stream>(opened);
  gzbuffer(opened, kPieceBytes);
}

TextFile::~TextFile() = default;
TextFile::TextFile(TextFile&&) noexcept = default;
TextFile& TextFile::operator=(TextFile&&) noexcept = default;

size_t TextFile::read(char* data, size_t bytes) {
  errno = 0;
  const int count = gzread(stream_->file, data, static_cast<unsigned>(std::min(bytes, kPieceBytes)));
  if (count > 0) {
    const auto found = static_cast<size_t>(count);
    const std::string_view encoding =
        std::exchange(begins_, false) ? utf16_name({data, found}) : std::string_view();
    if (encoding.empty()) return found;
    throw DataError(concat(name_, ", line 1, byte 1: expected UTF-8, found ", encoding, "; iconv -f ",
                           encoding, " -t UTF-8 converts it"));
  }
  int code = Z_OK;
  const char* message = gzerror(stream_->file, &code);
  if (code == Z_OK || code == Z_STREAM_END) return 0;
  if (code == Z_MEM_ERROR) throw std::bad_alloc();
  if (code == Z_ERRNO) throw IoError(concat("cannot read ", name_, ": ", reason()));
  if (code == Z_BUF_ERROR)
    throw DataError(concat(name_, ": expected the end of the compressed data, found a truncated file"));
  throw DataError(concat(name_, ": expected gzip data, found damaged data (", message, ")"));
}

void read_text_in_pieces(const std::filesystem::path& path,
                         const std::function<void(const char* data, size_t bytes)>& visit) {
  TextFile file(path);
  std::vector<char> piece(kPieceBytes);
  while (const size_t count = file.read(piece.data(), piece.size())) visit(piece.data(), count);
}

std::string read_text(const std::filesystem::path& path) {
  std::string text;
  read_text_in_pieces(path, [&](const char* data, size_t bytes) { text.append(data, bytes); });
  return text;
}

std::string_view readable_once(const std::filesystem::path& path) {
  using std::filesystem::file_type;
  std::error_code ignored;
  const auto type = std::filesystem::status(path, ignored).type();
  if (type == file_type::fifo || type == file_type::socket || type == file_type::character) return "a pipe";
  return path == "-" ? "stdin" : "";
}

void require_readable_again(const char* field, const std::filesystem::path& file, const char* reason) {
  const std::string_view kind = readable_once(file);
  if (kind.empty()) return;
  throw UsageError(concat(field, " ", file.string(), ": expected a file, as ", reason, ", found ", kind,
                          "; write the text to a file, which gzip may compress"));
}

}  // namespace qkv::text
