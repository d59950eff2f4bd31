#pragma once
// Weights that torch.save() wrote, such as pytorch_model.bin: a dictionary of tensors as a pickle, and the
// numbers beside it, in a ZIP archive (since PyTorch 1.6) or one after the other.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/io/checksums.h"
#include "qkv/io/tensor_file.h"

namespace qkv::io {

// A memory-mapped file. The pickle is read as data: no code of it is run. Entries of the dictionary that are
// no tensors are left out; tensors of other kinds than dense numbers are named, and refused when they are
// read.
class PytorchFile final : public TensorFile {
 public:
  // Throws IoError for a file that cannot be opened or mapped, and DataError, naming the file, for one that
  // is truncated, inconsistent or of another format, and for tensors beyond their numbers.
  explicit PytorchFile(const std::filesystem::path& path, MapFor use = MapFor::writing);

  const std::filesystem::path& path() const override { return path_; }
  std::vector<std::string> names() const override;
  bool contains(const std::string& name) const override { return entries_.contains(name); }
  const Shape& shape(const std::string& name) const override;
  // As safetensors spells it.
  const std::string& dtype(const std::string& name) const override;
  // A view of the mapping, or a copy of a tensor that is not contiguous or not aligned.
  Tensor as_stored(const std::string& name, const Shape& expected) const override;
  std::span<const std::byte> bytes(const std::string& name) const override;
  // Compares the numbers with the archive's CRC-32. Older files have none.
  ChecksumReport verify() const;

 private:
  struct Entry {
    std::string dtype;
    Shape shape;
    std::vector<int64_t> strides;  // in elements
    size_t element = 0;            // bytes
    size_t begin = 0;              // of the first number in the file
    std::string problem = {};      // why it cannot be read; empty: it can
    std::span<const std::byte> storage = {};
    uint32_t checksum = 0;  // CRC-32 of the storage; 0: none
  };
  struct Storage;
  class Tensors;

  const Entry& entry(const std::string& name) const;
  // Throws DataError for a tensor with a problem.
  const Entry& readable(const std::string& name) const;
  // In order, for a tensor that is not contiguous.
  void copy_in_order(const std::string& name, std::byte* to) const;

  std::filesystem::path path_;
  MapFor use_;
  std::shared_ptr<MappedFile> file_;
  std::map<std::string, Entry> entries_;
  mutable std::mutex mutex_;  // of ordered_
  mutable std::map<std::string, std::vector<std::byte>>
      ordered_;  // bytes() of tensors that are not contiguous
};

}  // namespace qkv::io
