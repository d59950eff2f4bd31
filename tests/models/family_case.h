#pragma once
// The golden folders of families (tests/golden/families.py) and their contents.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/models/hub/pretrained.h"
#include "tests/support/golden.h"

namespace qkv::testing {

// The folders of a kind whose names begin with `prefix`.
inline std::vector<std::string> family_cases(models::FolderKind kind, const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(QKV_TEST_DATA) / "models" / "golden")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && models::folder_kind(entry.path()) == kind) names.push_back(name);
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

// A valid test name.
inline std::string family_name(const std::string& folder) {
  std::string name = folder;
  for (char& c : name) {
    if (c == '+') c = '_';
  }
  return name;
}

}  // namespace qkv::testing
