#pragma once
// The weights of a Hugging Face folder: one file, or several with an index.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "qkv/io/safetensors.h"

namespace qkv::models {

class TensorFiles {
 public:
  // Opens model.safetensors or, where there is none, the shards that model.safetensors.index.json names.
  // Throws IoError where neither is there (and says what to do where pytorch_model.bin is), DataError for an
  // index that is none or that names a file which is missing or lacks a tensor, naming both.
  explicit TensorFiles(const std::filesystem::path& folder, MapFor use);

  bool contains(const std::string& name) const { return numbers_.contains(name); }
  std::vector<std::string> names() const;  // in alphabetical order

  // The file that has a tensor. Throws DataError naming the tensor and the shape that is expected of it where
  // none has.
  const io::SafetensorsFile& file_of(const std::string& name, const Shape& expected) const;

 private:
  void open_index(const std::filesystem::path& path);

  MapFor use_;
  std::string where_;  // for messages: the one file, or the index
  std::vector<io::SafetensorsFile> files_;
  std::map<std::string, size_t> numbers_;  // for each tensor, that of its file
};

}  // namespace qkv::models
