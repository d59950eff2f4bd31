#pragma once
// The safetensors format, which holds a model's parameters: the length of a header (8 bytes, little-endian),
// the header (JSON: for each name a dtype, a shape and an interval of bytes), then the numbers.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/tensor/tensor.h"

namespace qkv::io {

// Free text about the whole file, such as {"format": "pt"}.
using Metadata = std::map<std::string, std::string>;

// A file opened for reading. It is mapped, not read: opening costs the same for every size, and a page comes
// from disk when it is first used. The constructor checks everything that the header says against itself and
// the file.
class SafetensorsFile {
 public:
  // Throws IoError for a file that cannot be opened or mapped, and DataError, naming the file, for one that
  // is truncated, foreign or contradicts itself.
  // Tensors of a file mapped for reading must not be written to.
  explicit SafetensorsFile(const std::filesystem::path& path, MapFor use = MapFor::writing);

  const std::filesystem::path& path() const { return path_; }
  const Metadata& metadata() const { return metadata_; }

  std::vector<std::string> names() const;  // in alphabetical order
  bool contains(const std::string& name) const { return entries_.contains(name); }

  // Throws DataError for a name that the file lacks.
  const Shape& shape(const std::string& name) const;
  // The dtype as the file spells it: "F32", "BF16".
  const std::string& dtype(const std::string& name) const;

  // F32, I32, I8, U8 and BOOL (as u8) are views of the mapping: they outlive this object, and writing to one
  // changes this process's memory only. F16 and BF16 are widened to f32 in a copy, and what is not aligned is
  // copied. Throws DataError for a name that the file lacks and for any other dtype.
  Tensor tensor(const std::string& name) const;
  // As above, and throws DataError unless the file's shape is the expected one.
  Tensor tensor(const std::string& name, const Shape& expected) const;
  // The same, but BF16 is a view too.
  Tensor as_stored(const std::string& name, const Shape& expected) const;

 private:
  struct Entry {
    std::string dtype;
    Shape shape;
    size_t begin = 0, end = 0;  // in bytes from the end of the header
  };

  void read_header();
  void check_layout() const;
  const Entry& entry(const std::string& name) const;
  Tensor view(const Entry& entry, DType dtype) const;
  void require_shape(const std::string& name, const Shape& expected) const;

  std::filesystem::path path_;
  std::shared_ptr<MappedFile> file_;
  size_t data_begin_ = 0;  // where the numbers begin, in bytes from the start of the file
  std::map<std::string, Entry> entries_;
  Metadata metadata_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Writes the file atomically: a reader sees the old file or the new one. f32, i32, u8, bf16 and i8 become
// F32, I32, U8, BF16 and I8. The default metadata is what Python's transformers asks for. The same tensors
// give the same bytes in any order. Throws UsageError for a name that is empty, repeated, reserved or not
// UTF-8 and for a tensor that holds nothing, IoError when the file cannot be written.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const Metadata& metadata = {{"format", "pt"}});

}  // namespace qkv::io
