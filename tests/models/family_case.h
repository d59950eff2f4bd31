#pragma once
// The golden folders of families (tests/golden/families.py) and their contents.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/base/json.h"
#include "qkv/models/hub/pretrained.h"
#include "tests/support/golden.h"

namespace qkv::testing {

// The folders of a kind whose names begin with `prefix`.
inline std::vector<std::string> family_cases(models::FolderKind kind, const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(QKV_TEST_DATA) / "models" / "golden")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && std::filesystem::exists(entry.path() / "config.json") &&
        models::folder_kind(entry.path()) == kind)
      names.push_back(name);
  }
  if (names.empty()) throw std::runtime_error("no golden folders " + prefix + "*");
  std::sort(names.begin(), names.end());
  return names;
}

struct FamilyCase {
  explicit FamilyCase(const std::string& name)
      : folder(std::filesystem::path(QKV_TEST_DATA) / "models" / "golden" / name),
        expected((folder / "expected.safetensors").string()),
        offsets(Offsets::of_lengths(expected["lengths"].values<int32_t>())),
        texts{expected["ids"], offsets} {}

  // A single text.
  Ragged text(int64_t i) const {
    return {texts.values.slice_rows(offsets.begin(i), offsets.length(i)),
            Offsets::uniform(1, offsets.length(i))};
  }

  std::string model_type() const { return models::family_of(folder); }
  // Whether it is within a model of images, which config.json names.
  bool wrapped() const {
    const std::string config = (folder / "config.json").string();
    return parse_json(read_file(config), config).find("model_type")->string() != model_type();
  }

  std::filesystem::path folder;
  Golden expected;
  Offsets offsets;
  Ragged texts;
};

// The elements in one row, as the files of results have them.
inline Tensor flat(const Tensor& x) {
  const Tensor host = to_host(x);
  return (host.contiguous() ? host : host.clone()).reshape({host.numel()});
}

// Each layer's attention weights, for all texts concatenated.
class AttentionRecorder {
 public:
  explicit AttentionRecorder(nn::ForwardContext& context) {
    context.observer = [this](const std::string&, const std::vector<Tensor>& weights) {
      std::vector<float>& all = layers_.emplace_back();
      for (const Tensor& one : weights) {
        const Tensor host = to_host(one);
        all.insert(all.end(), host.values().begin(), host.values().end());
      }
    };
  }
  void expect(const Golden& expected, double tolerance) const {
    ASSERT_FALSE(layers_.empty());
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      const std::string name = concat("attention.", layer);
      expect_close(Tensor::from(layers_[layer], {std::ssize(layers_[layer])}), expected[name], name,
                   tolerance);
    }
    EXPECT_FALSE(expected.has(concat("attention.", layers_.size()))) << "a layer is missing";
  }

 private:
  std::vector<std::vector<float>> layers_;
};

// Expects the tensors of one folder in another, whose names may lack the model's prefix.
inline void expect_same_tensors_without_prefix(const std::filesystem::path& folder,
                                               const std::filesystem::path& original) {
  const io::SafetensorsFile before(original / "model.safetensors"), after(folder / "model.safetensors");
  for (const std::string& name : after.names()) {
    const std::string there = before.contains(name) ? name : name.substr(name.find('.') + 1);
    ASSERT_TRUE(before.contains(there)) << name;
    EXPECT_EQ(before.shape(there), after.shape(name)) << name;
    EXPECT_TRUE(std::ranges::equal(before.tensor(there).values(), after.tensor(name).values())) << name;
  }
}

inline void expect_same_tensors(const std::filesystem::path& folder, const std::filesystem::path& original) {
  EXPECT_EQ(io::SafetensorsFile(folder / "model.safetensors").names(),
            io::SafetensorsFile(original / "model.safetensors").names());
  expect_same_tensors_without_prefix(folder, original);
}

// A valid test name.
inline std::string family_name(const std::string& folder) {
  std::string name = folder;
  for (char& c : name) {
    if (c == '+' || c == '-') c = '_';
  }
  return name;
}

}  // namespace qkv::testing
