#pragma once
// The weights of a Hugging Face folder: one file, or shards with an index; or of a GGUF file.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/io/tensor_file.h"

namespace qkv::models {

class TensorFiles {
 public:
  // Opens a GGUF file; or a folder's model.safetensors, else the shards listed in
  // model.safetensors.index.json, else pytorch_model.bin, else the shards of its index. Throws IoError if
  // none exists, DataError for an invalid index or one that names a missing file, naming both.
  explicit TensorFiles(const std::filesystem::path& folder, MapFor use);

  bool contains(const std::string& name) const { return numbers_.contains(name); }
  // Whether both tensors exist and have different shapes, dtypes or bytes.
  bool differ(const std::string& a, const std::string& b) const;
  std::vector<std::string> names() const;  // in alphabetical order
  const std::vector<std::unique_ptr<const io::TensorFile>>& files() const { return files_; }

  // The file that contains a tensor. Throws DataError naming the tensor and its expected shape if none does.
  const io::TensorFile& file_of(const std::string& name, const Shape& expected) const;

 private:
  void add(std::unique_ptr<const io::TensorFile> file);
  void open_index(const std::filesystem::path& path);

  MapFor use_;
  std::string where_;  // for messages: the single file, or the index
  std::vector<std::unique_ptr<const io::TensorFile>> files_;
  std::map<std::string, size_t> numbers_;       // index into the files, by tensor
  std::map<std::string, std::string> missing_;  // shards without a tensor that the index promises, by tensor
};

// A file in the format of its name: PyTorch's for .bin, else safetensors. Throws their errors.
std::unique_ptr<const io::TensorFile> open_weights(const std::filesystem::path& path, MapFor use);

// For messages: the weights in a folder without model.safetensors (of other programs, an adapter), with
// advice. Empty: none that are known.
std::string unreadable_weights(const std::filesystem::path& folder);

// For messages: the contents of a folder that is no adapter, with advice.
std::string instead_of_adapter(const std::filesystem::path& folder);

}  // namespace qkv::models
