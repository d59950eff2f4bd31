#pragma once
// Golden numbers: safetensors files written by tests/golden/pytorch.py and related scripts.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/ops/variable.h"
#include "qkv/tensor/ragged.h"

namespace qkv::testing {

// The files of tests/<folder>/golden whose names begin with `prefix`.
inline std::vector<std::string> golden_files(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> paths;
  const auto directory = std::filesystem::path(QKV_TEST_DATA) / folder / "golden";
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().filename().string().starts_with(prefix)) paths.push_back(entry.path().string());
  }
  if (paths.empty()) throw std::runtime_error("no golden files " + (directory / prefix).string() + "*");
  std::sort(paths.begin(), paths.end());
  return paths;
}

class Golden {
 public:
  explicit Golden(const std::string& path) : file_(path) {}

  bool has(const std::string& name) const { return file_.contains(name); }
  Tensor operator[](const std::string& name) const { return file_.tensor(name); }
  std::string text(const std::string& key) const { return file_.metadata().at(key); }
  bool has_text(const std::string& key) const { return file_.metadata().contains(key); }
  bool flag(const std::string& key) const { return file_.metadata().contains(key) && text(key) == "true"; }
  int64_t whole(const std::string& key) const { return std::stoll(text(key)); }
  std::vector<std::string> names() const { return file_.names(); }

  // The lengths of the sequences of a padded [batch, length, ...] tensor: from the file, or all equal.
  Offsets offsets(const std::string& lengths, const Tensor& padded) const {
    if (!has(lengths)) return Offsets::uniform(padded.dim(0), padded.dim(1));
    const Tensor numbers = file_.tensor(lengths);
    return Offsets::of_lengths(numbers.values<int32_t>());
  }

 private:
  io::SafetensorsFile file_;
};

// The valid rows of a padded [batch, length, features], concatenated.
inline Tensor unpad(const Tensor& padded, const Offsets& offsets) {
  const int64_t features = padded.numel() / (padded.dim(0) * padded.dim(1));
  Tensor rows = Tensor::empty({offsets.tokens(), features});
  for (int64_t s = 0; s < offsets.sequences(); ++s) {
    const Tensor sequence = padded.slice_rows(s, 1).reshape({padded.dim(1), features});
    rows.slice_rows(offsets.begin(s), offsets.length(s)).copy_from(sequence.slice_rows(0, offsets.length(s)));
  }
  return rows;
}

// Expects equal shapes, and |found - expected| <= tolerance * max(1, largest |expected|) for each element.
inline void expect_close(const Tensor& found, const Tensor& expected, const std::string& what,
                         double tolerance = 1e-5) {
  ASSERT_TRUE(found.defined()) << what << " is missing";
  ASSERT_TRUE(expected.defined()) << what << ": nothing is expected";
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  const Tensor a = to_host(found.contiguous() ? found : found.clone());
  double largest = 1, worst = 0;
  int64_t at = 0;
  for (int64_t i = 0; i < expected.numel(); ++i) {
    largest = std::max(largest, std::abs(double{expected.data()[i]}));
    const double difference = std::abs(double{a.data()[i]} - expected.data()[i]);
    if (!(difference <= worst)) {
      worst = difference;
      at = i;
      if (std::isnan(difference)) break;
    }
  }
  EXPECT_LE(worst, tolerance * largest)
      << what << " at element " << at << ": expected " << expected.data()[at] << ", found " << a.data()[at];
}

}  // namespace qkv::testing
