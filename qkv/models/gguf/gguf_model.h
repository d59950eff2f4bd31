#pragma once
// A language model in a GGUF file, presented as the files of a Hugging Face folder: config.json,
// tokenizer.json and tensors under the family's names. llama.cpp's converter (convert_hf_to_gguf.py) wrote it
// from such a folder.

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/gguf.h"
#include "qkv/io/tensor_file.h"
#include "qkv/models/hub/config_writer.h"

namespace qkv::models {

// Whether a path names a GGUF file: by its ending, ".gguf".
bool is_gguf(const std::filesystem::path& path);

class GgufModel final : public io::TensorFile {
 public:
  // Opens a file, or all parts of a divided one ("NAME-00001-of-00003.gguf"), of which one is given. Throws
  // the errors of io::GgufFile, and DataError for an architecture that is not supported, listing those that
  // are.
  explicit GgufModel(const std::filesystem::path& path);

  // The name in GGUF files of a tensor of this family ("llama"); empty: none. Throws UsageError for a family
  // without an architecture, listing those that have one.
  static std::string own_name(std::string_view model_type, std::string_view name);
  // All parts of the file.
  const std::vector<io::GgufFile>& parts() const { return parts_; }

  // The contents of config.json and tokenizer.json. Throw DataError, naming the key, for metadata that are
  // missing or that have no counterpart here.
  std::string config_json() const;
  std::string tokenizer_json() const;
  // The chat template; empty: none.
  std::string chat_template() const;

  const std::filesystem::path& path() const override { return parts_.front().path(); }
  std::vector<std::string> names() const override;
  bool contains(const std::string& name) const override { return tensors_.contains(name); }
  const Shape& shape(const std::string& name) const override { return tensor(name).entry->shape; }
  const std::string& dtype(const std::string& name) const override { return tensor(name).type; }
  Tensor as_stored(const std::string& name, const Shape& expected) const override;
  std::span<const std::byte> bytes(const std::string& name) const override {
    return tensor(name).entry->bytes;
  }

 private:
  struct Architecture;
  struct Stored {
    const io::GgufFile* file = nullptr;
    const io::GgufFile::Entry* entry = nullptr;
    std::string type, own_name;  // as the file spells them
  };
  static std::span<const Architecture> architectures();
  static const Architecture& architecture_of(const io::GgufFile& file);
  const io::GgufFile& file() const { return parts_.front(); }
  const Stored& tensor(const std::string& name) const;
  std::string_view model_type() const;  // of config.json
  std::string_view model_class() const;
  // "rope_scaling" of config.json, or an empty object.
  ConfigWriter rotary_scaling(int64_t head_width, double base) const;
  // "llama.block_count"
  std::string key(std::string_view name) const;
  int64_t count(std::string_view name) const;
  int64_t heads(std::string_view name) const;

  std::vector<io::GgufFile> parts_;
  const Architecture* architecture_ = nullptr;
  std::map<std::string, Stored> tensors_;  // by the family's names
};

}  // namespace qkv::models
