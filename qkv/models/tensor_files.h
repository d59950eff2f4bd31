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
  // Throws IoError where neither is there, DataError for an index that is none or that names a file which is
  // missing or lacks a tensor, naming both.
  explicit TensorFiles(const std::filesystem::path& folder);

  bool contains(const std::string& name) const { return file_of_.contains(name); }
  std::vector<std::string> names() const;  // in alphabetical order

  // As f32. Throws DataError naming file and tensor, what was expected and what was found, where there is no
  // such tensor or its shape is another.
  Tensor tensor(const std::string& name, const Shape& expected) const;

 private:
  void open_index(const std::filesystem::path& path);

  std::string where_;  // for messages: the one file, or the index
  std::vector<io::SafetensorsFile> files_;
  std::map<std::string, size_t> file_of_;  // for each tensor, the number of its file
};

}  // namespace qkv::models
