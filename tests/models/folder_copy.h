#pragma once
// Copies of golden folders, to be damaged.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/hub/pretrained.h"
#include "tests/models/family_case.h"
#include "tests/support/scratch.h"

namespace qkv::testing {

class FolderCopy {
 public:
  explicit FolderCopy(const std::string& name) : one(name) {
    std::filesystem::copy(one.folder, folder.path(), std::filesystem::copy_options::recursive);
  }
  // Replaces text in a file, which must contain it once.
  void replace(const char* file, const std::string& from, const std::string& to) const {
    std::string text = read_file(folder / file);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    folder.write(file, text);
  }
  void add_field(const std::string& field) const { replace("config.json", "{", "{" + field + ","); }
  void rewrite(const std::function<void(std::vector<io::NamedTensor>&)>& change) const {
    std::vector<io::NamedTensor> tensors;
    {
      const io::SafetensorsFile file(folder / "model.safetensors");
      for (const std::string& name : file.names()) tensors.push_back({name, file.tensor(name).clone()});
    }
    change(tensors);
    io::write_safetensors(folder / "model.safetensors", tensors);
  }
  std::string language_error() const {
    return message_of<DataError>([&] { models::load_language_model(folder.path()); });
  }
  std::string encoder_error() const {
    return message_of<DataError>([&] { models::load_text_encoder(folder.path()); });
  }

  FamilyCase one;
  Scratch folder;
};

}  // namespace qkv::testing
