#pragma once
// The safetensors format for model parameters: the header's length (8 bytes, little-endian), the header
// (JSON: for each name a dtype, a shape and a byte range), then the data.

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/io/tensor_file.h"
#include "qkv/tensor/tensor.h"

namespace qkv::io {

inline constexpr size_t kLengthBytes = 8;  // of the field that holds the header's length

// String metadata of the file, such as {"format": "pt"}.
using Metadata = std::map<std::string, std::string>;

// A memory-mapped safetensors file. Opening cost does not depend on the file's size; pages are read from disk
// on first use. The constructor validates the header against itself and the file.
class SafetensorsFile final : public TensorFile {
 public:
  // Throws IoError for a file that cannot be opened or mapped, and DataError, naming the file, for one that
  // is truncated, inconsistent or of another format. Tensors of a file mapped for reading are read-only
  // (Tensor::read_only).
  explicit SafetensorsFile(const std::filesystem::path& path, MapFor use = MapFor::writing);

  const std::filesystem::path& path() const override { return path_; }
  const Metadata& metadata() const { return metadata_; }

  std::vector<std::string> names() const override;
  bool contains(const std::string& name) const override { return entries_.contains(name); }
  const Shape& shape(const std::string& name) const override;
  const std::string& dtype(const std::string& name) const override;

  // F32, I64, I32, I8, U8 and BOOL (as u8) are views of the mapping: they outlive this object, and writes
  // change only this process's memory. F16 and BF16 are widened to f32 in a copy; unaligned data are copied.
  // Throws DataError for an unknown name and for any other dtype.
  Tensor tensor(const std::string& name) const;
  // Likewise; throws DataError unless the file's shape is `expected`.
  Tensor tensor(const std::string& name, const Shape& expected) const;
  // Likewise, but F16 and BF16 are views too.
  Tensor as_stored(const std::string& name, const Shape& expected) const override;
  std::span<const std::byte> bytes(const std::string& name) const override;
  // The header's text in the file.
  std::string_view header() const;

 private:
  struct Entry {
    std::string dtype;
    Shape shape;
    size_t begin = 0, end = 0;  // bytes from the end of the header
  };

  void read_header();
  void check_layout() const;
  const Entry& entry(const std::string& name) const;
  Tensor view(const std::string& name, DType dtype) const;
  void require_shape(const std::string& name, const Shape& expected) const;

  std::filesystem::path path_;
  MapFor use_;
  std::shared_ptr<MappedFile> file_;
  size_t data_begin_ = 0;  // bytes from the start of the file
  std::map<std::string, Entry> entries_;
  Metadata metadata_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Writes the file atomically: readers see either the old or the new content. f32, i64, i32, u8, bf16, f16
// and i8 become F32, I64, I32, U8, BF16, F16 and I8. The default metadata are what Python's transformers
// requires. The bytes do not depend on the order of the tensors. Throws UsageError for a name that is empty,
// repeated, reserved or not UTF-8 and for an empty tensor handle, IoError if the file cannot be written.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const Metadata& metadata = {{"format", "pt"}});

}  // namespace qkv::io
