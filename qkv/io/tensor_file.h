#pragma once
// A file of named tensors.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/tensor/tensor.h"

namespace qkv::io {

class TensorFile {
 public:
  virtual ~TensorFile() = default;

  virtual const std::filesystem::path& path() const = 0;
  virtual std::vector<std::string> names() const = 0;  // in alphabetical order
  virtual bool contains(const std::string& name) const = 0;
  // The following throw DataError for an unknown name.
  virtual const Shape& shape(const std::string& name) const = 0;
  // The dtype as spelled in the file: "F32", "BF16", "Q4_K".
  virtual const std::string& dtype(const std::string& name) const = 0;
  // The tensor in the dtype of the file, where possible a view of the mapped file that outlives this object.
  // Throws DataError for a dtype that is not supported, and unless the file's shape is `expected`.
  virtual Tensor as_stored(const std::string& name, const Shape& expected) const = 0;
  // The tensor's bytes in the mapping, which live as long as this object.
  virtual std::span<const std::byte> bytes(const std::string& name) const = 0;
};

// The element type of a spelling: of F32, F16, BF16, I64, I32, I8, U8 and BOOL (as u8).
std::optional<DType> element_type(std::string_view spelling);

// Of a file without a tensor of this name.
[[noreturn]] void throw_no_tensor(const TensorFile& file, const std::string& name);

// A tensor whose numbers begin at `data` in a mapped file: a view, read-only if the file is mapped for
// reading, or a copy if they are not aligned. origin: for messages.
Tensor mapped_tensor(const std::shared_ptr<MappedFile>& file, std::byte* data, const Shape& shape,
                     DType dtype, MapFor use, const std::string& origin);

}  // namespace qkv::io
