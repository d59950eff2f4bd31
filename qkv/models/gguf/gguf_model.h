#pragma once
// A language model in a GGUF file, presented as the files of a Hugging Face folder: config.json,
// tokenizer.json and tensors under the family's names. llama.cpp's converter (convert_hf_to_gguf.py) wrote it
// from such a folder.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/io/gguf.h"
#include "qkv/io/tensor_file.h"
#include "qkv/text/tokenizer.h"

namespace qkv::models {

struct GgufArchitecture;

// The paths of all parts of a divided file (NAME-00001-of-00003.gguf), in order; of another file, its own.
std::vector<std::filesystem::path> files_of_gguf(const std::filesystem::path& path);

// Whether a path names a GGUF file: by its ending, ".gguf".
bool is_gguf(const std::filesystem::path& path);

class GgufModel final : public io::TensorFile {
 public:
  // Opens a file, or all parts of a divided one ("NAME-00001-of-00003.gguf"), of which one is given. Throws
  // the errors of io::GgufFile, IoError for a missing part, and DataError for parts that do not belong
  // together and for an architecture that is not supported, listing those that are.
  explicit GgufModel(const std::filesystem::path& path);
  // A file that is open, or the beginning of one.
  explicit GgufModel(io::GgufFile file);

  // The name in GGUF files of a tensor of the architecture's family; empty: none.
  static std::string own_name(const GgufArchitecture& architecture, std::string_view name);
  // All parts of the file.
  const std::vector<io::GgufFile>& parts() const { return parts_; }

  // The content of a file of the folder; nothing if a GGUF file has no counterpart of it. Throws DataError,
  // naming the key, for metadata that are missing or that have no counterpart here.
  std::optional<std::string> text_file(std::string_view name) const;
  std::string config_json() const;
  std::string tokenizer_json() const;
  // tokenizer_config.json: the special tokens and the chat templates.
  std::string tokenizer_config_json() const;
  text::Tokenizer tokenizer() const;
  // generation_config.json: the end tokens, and the sampling that general.sampling.* recommends.
  std::string generation_config_json() const;

  // The number of a pooling ("mean", "cls" or "lasttoken") in GGUF files. Throws UsageError for others.
  static int64_t pooling_type(std::string_view pooling);

  // Keys of metadata for people: those of the architecture, and what the model and its tokenizer are.
  std::vector<std::string> summary() const;

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
  struct Stored {
    const io::GgufFile* file = nullptr;
    const io::GgufFile::Entry* entry = nullptr;
    std::string type, own_name;  // as the file spells them
  };
  const io::GgufFile& file() const { return parts_.front(); }  // the first part has the metadata
  void name_tensors();
  void require_whole() const;
  const Stored& tensor(const std::string& name) const;
  // "llama.block_count"
  std::string key(std::string_view name) const;
  // A token "tokenizer.ggml.NAME"; nothing for none. Throws DataError for an id outside the vocabulary.
  std::optional<int32_t> token_id(std::string_view name, size_t tokens) const;
  // The ids of the tokens that begin, and those that end a text or a message.
  std::vector<int32_t> start_ids() const;
  std::vector<int32_t> end_ids() const;
  // sentence-transformers' name of the pooling; empty: none.
  std::string_view pooling() const;

  std::vector<io::GgufFile> parts_;
  const GgufArchitecture* architecture_ = nullptr;
  std::map<std::string, Stored> tensors_;  // by the family's names
};

}  // namespace qkv::models
