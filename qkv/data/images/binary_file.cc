#include "qkv/data/images/binary_file.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <system_error>

#include "qkv/base/error.h"
#include "qkv/base/files.h"

namespace qkv::data {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 18;
// Deflate yields at most 1032 bytes for each compressed byte.
constexpr int64_t kMaxExpansion = 1032;
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// The bytes that a file can hold: a bound on the counts in its header. A pipe has none.
int64_t most_bytes_of(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return kUnlimited;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error || size > kUnlimited / kMaxExpansion) return kUnlimited;
  InputFile file(path);
  char magic[2] = {};
  const bool compressed = file.read(magic, 2) == 2 && std::string_view(magic, 2) == "\x1f\x8b";
  return compressed ? size * kMaxExpansion : size;
}

}  // namespace

BinaryFile::BinaryFile(const std::filesystem::path& path) : file_(path), most_(most_bytes_of(path)) {}

void BinaryFile::append(std::vector<uint8_t>& to, int64_t bytes) {
  const auto wanted = static_cast<size_t>(bytes) + to.size();
  while (to.size() < wanted) {
    const size_t before = to.size();
    to.resize(before + std::min(wanted - before, static_cast<size_t>(kPieceBytes)));
    const size_t count = file_.read(reinterpret_cast<char*>(to.data() + before), to.size() - before);
    to.resize(before + count);
    if (count == 0) return;
  }
}

std::vector<uint8_t> BinaryFile::read(int64_t bytes, const std::string& what) {
  if (bytes > most_) {
    throw DataError(concat(name(), ": expected ", what, ", ", bytes, " bytes, found a file of at most ",
                           most_, " bytes"));
  }
  std::vector<uint8_t> result;
  if (most_ != kUnlimited) result.reserve(static_cast<size_t>(bytes));  // address space only
  append(result, bytes);
  if (std::ssize(result) < bytes) {
    throw DataError(concat(name(), ": expected ", what, ", ", bytes,
                           " bytes, found the end of the file after ", result.size()));
  }
  return result;
}

std::vector<uint8_t> BinaryFile::read_rest() {
  std::vector<uint8_t> result;
  for (size_t before = 1; before != result.size();) {
    before = result.size();
    append(result, kPieceBytes);
  }
  return result;
}

void BinaryFile::require_end(const std::string& what) {
  char byte = 0;
  if (file_.read(&byte, 1) == 0) return;
  throw DataError(concat(name(), ": expected the end of the file after ", what, ", found more bytes"));
}

}  // namespace qkv::data
