#include "qkv/models/hub/tensor_files.h"

#include <algorithm>
#include <array>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/io/pytorch/pytorch_file.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/hub/adapters/adapter.h"
#include "qkv/models/hub/config_reader.h"

namespace qkv::models {
namespace {

constexpr const char* kOneFile = "model.safetensors";
// In order of preference.
constexpr std::array kWeights{kOneFile, "model.safetensors.index.json", "pytorch_model.bin",
                              "pytorch_model.bin.index.json"};

// Also of a link to a file that does not exist, so that it is named.
bool present(const std::filesystem::path& path) {
  return std::filesystem::exists(std::filesystem::symlink_status(path));
}

}  // namespace

std::unique_ptr<const io::TensorFile> open_weights(const std::filesystem::path& path, MapFor use) {
  if (path.extension() == ".bin") return std::make_unique<const io::PytorchFile>(path, use);
  return std::make_unique<const io::SafetensorsFile>(path, use);
}

std::string unreadable_weights(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) return "";
  for (const char* const name : {kAdapterConfig, kAdapterWeights, kPytorchAdapter}) {
    if (!std::filesystem::exists(folder / name)) continue;
    return concat(name, ": an adapter, which holds changes to the weights of another model; open that model ",
                  "with --adapter ", folder.string(), ", or add the two with qkv merge");
  }
  for (const std::filesystem::path& path : files_in(folder)) {
    if (path.extension() != ".gguf") continue;
    return concat(path.filename().string(),
                  ", a model in one file, which opens by its own name: ", path.string());
  }
  for (const char* const name : {"tf_model.h5", "flax_model.msgpack", "rust_model.ot", "onnx/model.onnx"}) {
    if (std::filesystem::exists(folder / name))
      return concat(name, " alone; weights of that program are not supported");
  }
  return "";
}

std::string instead_of_adapter(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder)) return "no such folder";
  if (present(folder / kAdapterConfig)) return concat(kAdapterConfig, " alone");
  for (const char* const name : {kAdapterWeights, kPytorchAdapter}) {
    if (present(folder / name)) return concat(name, " alone");
  }
  return "neither";
}

TensorFiles::TensorFiles(const std::filesystem::path& folder, MapFor use) : use_(use) {
  if (is_gguf(folder)) {
    where_ = folder.string();
    add(std::make_unique<const GgufModel>(folder));
    return;
  }
  const auto* const found =
      std::ranges::find_if(kWeights, [&](const char* name) { return present(folder / name); });
  if (found == kWeights.end()) {
    if (const std::string others = unreadable_weights(folder); !others.empty())
      throw IoError(concat((folder / kOneFile).string(), ": expected this file, found ", others));
  }
  const std::filesystem::path path = folder / (found == kWeights.end() ? kOneFile : *found);
  if (path.extension() == ".json") {
    open_index(path);
    return;
  }
  where_ = path.string();
  add(open_weights(path, use_));
}

void TensorFiles::add(std::unique_ptr<const io::TensorFile> file) {
  for (const std::string& name : file->names()) numbers_[name] = files_.size();
  files_.push_back(std::move(file));
}

void TensorFiles::open_index(const std::filesystem::path& path) {
  where_ = path.string();
  const ConfigReader index(read_file(path), where_);
  if (!index.has("weight_map")) index.reject("weight_map", "an object of tensors and their files");
  std::map<std::string, size_t> numbers;
  for (const auto& [tensor, file] : index.entries("weight_map")) {
    const std::filesystem::path shard = path.parent_path() / file;
    if (shard.parent_path() != path.parent_path()) {
      throw DataError(concat(where_, ": ", tensor, ": expected the name of a file beside it, found ", file));
    }
    const auto [found, is_new] = numbers.emplace(file, files_.size());
    if (is_new) {
      std::error_code too_long;  // an invalid file name does not exist
      if (!std::filesystem::exists(shard, too_long)) {
        throw DataError(concat(where_, ": expected the shard ", file, " beside it, which holds ", tensor,
                               ", found no such file"));
      }
      files_.push_back(open_weights(shard, use_));
    }
    // An index may name buffers that were not saved.
    if (files_[found->second]->contains(tensor)) {
      numbers_[tensor] = found->second;
    } else {
      missing_[tensor] = file;
    }
  }
}

std::vector<std::string> TensorFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, number] : numbers_) names.push_back(name);
  return names;
}

bool TensorFiles::differ(const std::string& a, const std::string& b) const {
  if (!contains(a) || !contains(b)) return false;
  const io::TensorFile &first = *files_[numbers_.at(a)], &second = *files_[numbers_.at(b)];
  if (first.shape(a) != second.shape(b) || first.dtype(a) != second.dtype(b)) return true;
  return !std::ranges::equal(first.bytes(a), second.bytes(b));
}

const io::TensorFile& TensorFiles::file_of(const std::string& name, const Shape& expected) const {
  const auto found = numbers_.find(name);
  if (const auto shard = missing_.find(name); shard != missing_.end()) {
    throw DataError(concat(where_, ": expected ", name, " in the shard ", shard->second,
                           ", found no tensor of that name"));
  }
  if (found == numbers_.end()) {
    throw DataError(concat(where_, ": expected a tensor ", name, " of shape ", expected, ", found none"));
  }
  return *files_[found->second];
}

}  // namespace qkv::models
