#include "qkv/models/tensor_files.h"

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/models/config_reader.h"

namespace qkv::models {
namespace {

constexpr const char* kOneFile = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// Older folders have the weights as Python objects alone, which take running code to be read.
void refuse_pickles(const std::filesystem::path& folder) {
  for (const char* const name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (!std::filesystem::exists(folder / name)) continue;
    throw IoError(concat((folder / kOneFile).string(), ": expected this file, found ", name,
                         " alone; transformers writes the folder with it by from_pretrained(FOLDER)",
                         ".save_pretrained(OTHER_FOLDER)"));
  }
}

}  // namespace

TensorFiles::TensorFiles(const std::filesystem::path& folder, MapFor use) : use_(use) {
  if (!std::filesystem::exists(folder / kOneFile) && std::filesystem::exists(folder / kIndex)) {
    open_index(folder / kIndex);
    return;
  }
  if (!std::filesystem::exists(folder / kOneFile)) refuse_pickles(folder);
  where_ = (folder / kOneFile).string();
  files_.emplace_back(folder / kOneFile, use_);
  for (const std::string& name : files_.front().names()) numbers_[name] = 0;
}

void TensorFiles::open_index(const std::filesystem::path& path) {
  where_ = path.string();
  const ConfigReader index(read_file(path), where_);
  if (!index.has("weight_map")) index.refuse("weight_map", "an object of tensors and their files");
  std::map<std::string, size_t> numbers;
  for (const auto& [tensor, file] : index.entries("weight_map")) {
    const std::filesystem::path shard = path.parent_path() / file;
    if (shard.parent_path() != path.parent_path()) {
      throw DataError(concat(where_, ": ", tensor, ": expected the name of a file beside it, found ", file));
    }
    const auto [found, is_new] = numbers.emplace(file, files_.size());
    if (is_new) {
      if (!std::filesystem::exists(shard)) {
        throw DataError(concat(where_, ": expected the shard ", file, " beside it, which holds ", tensor,
                               ", found no such file"));
      }
      files_.emplace_back(shard, use_);
    }
    if (!files_[found->second].contains(tensor)) {
      throw DataError(
          concat(where_, ": expected ", tensor, " in the shard ", file, ", found no tensor of that name"));
    }
    numbers_[tensor] = found->second;
  }
}

std::vector<std::string> TensorFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, number] : numbers_) names.push_back(name);
  return names;
}

const io::SafetensorsFile& TensorFiles::file_of(const std::string& name, const Shape& expected) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) {
    throw DataError(concat(where_, ": expected a tensor ", name, " of shape ", expected, ", found none"));
  }
  return files_[found->second];
}

}  // namespace qkv::models
