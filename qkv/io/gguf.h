#pragma once
// The GGUF format for models (ggml-org/ggml, docs/gguf.md), versions 2 and 3, little-endian: counts, metadata
// (named values with a type), the tensors' names, shapes, types and offsets, then the data.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/tensor/dtype.h"
#include "qkv/tensor/shape.h"

namespace qkv::io {

// The number of a dtype in GGUF files; nothing: they do not have it.
std::optional<uint32_t> gguf_type(DType dtype);

// A memory-mapped GGUF file. The constructor validates the header against itself and the file, and allocates
// in proportion to the header that is really there. Texts are views of the mapping.
class GgufFile {
 public:
  // Throws IoError for a file that cannot be opened or mapped, DataError, naming the file, for one that is
  // truncated, inconsistent, big-endian, of version 1 or of another format.
  explicit GgufFile(const std::filesystem::path& path);
  // The beginning of a file that is to be written: its header (gguf_header) and the data of some tensors; the
  // others have no bytes yet. `path` is for messages.
  GgufFile(const std::filesystem::path& path, std::string beginning);

  const std::filesystem::path& path() const { return path_; }

  // The metadata's keys, in the order of the file.
  const std::vector<std::string>& keys() const { return keys_; }
  bool has(std::string_view key) const { return values_.contains(key); }
  // A value; nothing if the file lacks it. Throws DataError naming file and key for a value of another kind.
  // Integers are those of any width; numbers include integers.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  // Lists; empty if the file lacks them.
  std::vector<int64_t> integers(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  std::vector<std::string_view> texts(std::string_view key) const;
  // A value for people: a text in quotes, of others only the size. "none" if the file lacks it.
  std::string shown(std::string_view key) const;
  // A value for programs, as JSON: texts whole, of lists only the size, null for numbers that JSON does not
  // have.
  std::string json(std::string_view key) const;
  // A value of any kind as it is in the file, its kind first. Requires has(key).
  std::span<const std::byte> stored(std::string_view key) const { return stored_.find(key)->second; }
  // Throws DataError: "FILE: KEY: expected EXPECTED, found ...".
  [[noreturn]] void reject(std::string_view key, const std::string& expected) const;

  struct Entry {
    std::string_view type = {};       // as ggml spells it: "Q4_K"
    std::optional<DType> dtype = {};  // nothing: a type that is not supported
    Shape shape = {};                 // [rows, columns], as in safetensors; the file's order is the reverse
    std::span<const std::byte> bytes = {};
  };
  std::vector<std::string> names() const;  // in alphabetical order
  bool contains(const std::string& name) const { return entries_.contains(name); }
  // Throws DataError for an unknown name.
  const Entry& entry(const std::string& name) const;
  // Keeps the bytes alive.
  const std::shared_ptr<MappedFile>& mapping() const { return file_; }

 private:
  class Reader;
  struct List {
    uint32_t kind = 0;
    uint64_t count = 0;
    size_t begin = 0;  // of the first element, from the start of the file
  };
  using Value = std::variant<bool, int64_t, double, std::string_view, List>;

  void read();
  void read_metadata(Reader& reader, uint64_t count);
  void read_tensors(Reader& reader, uint64_t count);
  const Value* find(std::string_view key) const;
  const List* list(std::string_view key, const std::string& expected) const;
  template <class T>
  std::optional<T> scalar(std::string_view key, const std::string& expected) const;

  std::filesystem::path path_;
  std::shared_ptr<MappedFile> file_;
  std::shared_ptr<const std::string> beginning_;  // in place of a file
  std::span<const std::byte> bytes_;              // of either
  std::vector<std::string> keys_;
  std::map<std::string, Value, std::less<>> values_;
  std::map<std::string, std::span<const std::byte>, std::less<>> stored_;
  std::map<std::string, Entry> entries_;
};

}  // namespace qkv::io
