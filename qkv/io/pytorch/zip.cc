#include "qkv/io/pytorch/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "qkv/base/error.h"

namespace qkv::io {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr uint32_t kSee64 = 0xFFFFFFFF;  // the number is in the ZIP64 record

// Reads within the archive; positions are those in the file.
class Bytes {
 public:
  Bytes(std::span<const std::byte> file, const std::string& name) : file_(file), name_(name) {}

  [[noreturn]] void fail(const std::string& found) const {
    throw DataError(concat(name_, ": expected a ZIP archive as torch.save() writes it, found ", found));
  }
  std::span<const std::byte> at(uint64_t begin, uint64_t count, const char* what) const {
    if (begin > file_.size() || count > file_.size() - begin)
      fail(concat(what, " at bytes ", begin, " to ", begin + count, " of ", file_.size(),
                  "; the file is truncated or damaged"));
    return file_.subspan(begin, count);
  }
  template <class Number>
  Number number(uint64_t begin, const char* what) const {
    Number value;
    std::memcpy(&value, at(begin, sizeof(value), what).data(), sizeof(value));
    return value;
  }
  uint64_t size() const { return file_.size(); }

 private:
  std::span<const std::byte> file_;
  const std::string& name_;
};

struct Directory {
  uint64_t entries, begin;
};

// The end record is behind a comment of up to 65,535 bytes.
Directory directory_of(const Bytes& bytes) {
  const uint64_t size = bytes.size();
  for (uint64_t back = kEndBytes; back <= size && back <= kEndBytes + UINT16_MAX; ++back) {
    const uint64_t end = size - back;
    if (bytes.number<uint32_t>(end, "an end record") != kEnd ||
        bytes.number<uint16_t>(end + 20, "an end record") != back - kEndBytes)
      continue;
    if (end >= kLocatorBytes && bytes.number<uint32_t>(end - kLocatorBytes, "a locator") == kLocator64) {
      const auto record = bytes.number<uint64_t>(end - kLocatorBytes + 8, "a locator");
      bytes.at(record, kEnd64Bytes, "the ZIP64 end record");
      if (bytes.number<uint32_t>(record, "the ZIP64 end record") != kEnd64)
        bytes.fail(concat("no ZIP64 end record at byte ", record));
      return {bytes.number<uint64_t>(record + 32, "a record"),
              bytes.number<uint64_t>(record + 48, "a record")};
    }
    return {bytes.number<uint16_t>(end + 10, "a record"), bytes.number<uint32_t>(end + 16, "a record")};
  }
  bytes.fail("no directory at its end; the file is truncated");
}

// A number of an entry, or that of its ZIP64 field, where those that do not fit follow each other.
class Wide {
 public:
  Wide(const Bytes& bytes, uint64_t begin, uint64_t end) : bytes_(bytes) {
    while (begin + 4 <= end) {
      const auto kind = bytes.number<uint16_t>(begin, "a field"),
                 size = bytes.number<uint16_t>(begin + 2, "a field");
      constexpr uint16_t kZip64 = 1;
      if (kind == kZip64) {
        next_ = begin + 4;
        end_ = std::min<uint64_t>(next_ + size, end);
        return;
      }
      begin += uint64_t{4} + size;
    }
  }
  uint64_t operator()(uint32_t narrow) {
    if (narrow != kSee64) return narrow;
    if (next_ + 8 > end_) bytes_.fail("an entry without its ZIP64 sizes");
    next_ += 8;
    return bytes_.number<uint64_t>(next_ - 8, "a field");
  }

 private:
  const Bytes& bytes_;
  uint64_t next_ = 0, end_ = 0;
};

}  // namespace

bool is_zip(std::span<const std::byte> file) {
  uint32_t signature = 0;
  if (file.size() < sizeof(signature)) return false;
  std::memcpy(&signature, file.data(), sizeof(signature));
  return signature == kLocal;
}

uint32_t crc32(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(
      ::crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

std::map<std::string, StoredEntry> stored_entries(std::span<const std::byte> file, const std::string& name) {
  const Bytes bytes(file, name);
  const Directory directory = directory_of(bytes);
  std::map<std::string, StoredEntry> entries;
  uint64_t at = directory.begin;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    bytes.at(at, kCentralBytes, "an entry of the directory");
    if (bytes.number<uint32_t>(at, "an entry") != kCentral) bytes.fail(concat("no entry at byte ", at));
    const auto flags = bytes.number<uint16_t>(at + 8, "an entry"),
               method = bytes.number<uint16_t>(at + 10, "an entry"),
               name_bytes = bytes.number<uint16_t>(at + 28, "an entry"),
               extra_bytes = bytes.number<uint16_t>(at + 30, "an entry"),
               comment_bytes = bytes.number<uint16_t>(at + 32, "an entry");
    const auto text = bytes.at(at + kCentralBytes, name_bytes, "a name");
    const std::string entry(reinterpret_cast<const char*>(text.data()), text.size());
    const uint64_t extra = at + kCentralBytes + name_bytes;
    bytes.at(extra, extra_bytes, "a field");
    Wide wide(bytes, extra, extra + extra_bytes);
    // In the order of the ZIP64 field.
    const uint64_t size = wide(bytes.number<uint32_t>(at + 24, "an entry")),
                   stored = wide(bytes.number<uint32_t>(at + 20, "an entry")),
                   local = wide(bytes.number<uint32_t>(at + 42, "an entry"));
    constexpr uint16_t kEncrypted = 1;
    if (method != 0 || size != stored || (flags & kEncrypted) != 0)
      bytes.fail(concat("the compressed entry ", entry.substr(0, 80)));
    bytes.at(local, kLocalBytes, "an entry");
    if (bytes.number<uint32_t>(local, "an entry") != kLocal)
      bytes.fail(concat("no entry ", entry.substr(0, 80), " at byte ", local));
    const uint64_t local_name = bytes.number<uint16_t>(local + 26, "an entry"),
                   begin = local + kLocalBytes + local_name + bytes.number<uint16_t>(local + 28, "an entry");
    const auto own = bytes.at(local + kLocalBytes, local_name, "a name");
    if (!std::ranges::equal(own, text))
      bytes.fail(concat("another entry at byte ", local, " than ", entry.substr(0, 80)));
    const StoredEntry stored_entry{bytes.at(begin, size, "the data of an entry"),
                                   bytes.number<uint32_t>(at + 16, "an entry")};
    if (!entries.emplace(entry, stored_entry).second) bytes.fail(concat("two entries ", entry.substr(0, 80)));
    at = extra + extra_bytes + comment_bytes;
  }
  return entries;
}

}  // namespace qkv::io
