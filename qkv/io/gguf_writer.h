#pragma once
// Writes GGUF files (qkv/io/gguf.h), version 3: metadata and the tensors' descriptions first, then the data
// of one tensor after the other, so that no more than a part of a tensor is in memory.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/tensor/dtype.h"
#include "qkv/tensor/shape.h"

namespace qkv::io {

// Metadata in the order of the file. Putting a key again replaces its value.
class GgufMetadata {
 public:
  void integer(std::string_view key,
               int64_t value);  // u32; throws UsageError for one below 0 or above 2^32 - 1
  void number(std::string_view key, double value);  // f32
  void boolean(std::string_view key, bool value);
  void text(std::string_view key, std::string_view value);
  void integers(std::string_view key, std::span<const int32_t> values);
  void numbers(std::string_view key, std::span<const float> values);
  void texts(std::string_view key, std::span<const std::string> values);
  // A value as it is in another file (GgufFile::stored).
  void stored(std::string_view key, std::span<const std::byte> value);

  bool has(std::string_view key) const { return places_.contains(key); }
  size_t size() const { return values_.size(); }
  std::string bytes() const;  // as in the file

 private:
  void put(std::string_view key, std::string value);

  std::vector<std::pair<std::string, std::string>> values_;  // keys, and kinds with values
  std::map<std::string, size_t, std::less<>> places_;
};

class GgufWriter {
 public:
  struct Tensor {
    std::string name;
    Shape shape;  // [rows, columns]
    DType dtype = DType::f32;
  };

  // Begins a file, which replaces `path` on commit() (AtomicFile). Throws the errors of gguf_header(), and
  // IoError if the file cannot be written.
  GgufWriter(const std::filesystem::path& path, const GgufMetadata& metadata, std::vector<Tensor> tensors);

  // The next bytes of the tensors' data, in the order of `tensors`, of any one tensor. Throws UsageError for
  // more bytes than the tensor has, IoError if the file cannot be written.
  void write(const void* data, size_t bytes);
  // Throws UsageError if data are missing.
  void commit();

 private:
  void pad(size_t bytes);

  AtomicFile file_;
  std::vector<Tensor> tensors_;
  size_t current_ = 0, written_ = 0;  // the tensor that write() continues, and its bytes so far
};

// The zeros that follow a tensor's data of this many bytes.
size_t gguf_padding(size_t bytes);

// The bytes of a file before its data. Throws UsageError for a name that is empty or repeated, for a dtype
// that GGUF files do not have and for rows that are no multiple of its block. `path` is for messages.
std::string gguf_header(const std::filesystem::path& path, const GgufMetadata& metadata,
                        std::span<const GgufWriter::Tensor> tensors);

}  // namespace qkv::io
