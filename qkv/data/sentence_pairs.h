#pragma once
// Reads pairs of sentences, with or without a score of their similarity.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "qkv/text/lines.h"

namespace qkv::data {

// A line `first<TAB>second` or `score<TAB>first<TAB>second`.
struct SentencePair {
  std::string first, second;
  std::optional<double> score = {};
};

// All lines of a file have the form of its first one. Files may be compressed by gzip.
class SentencePairReader {
 public:
  // Throws IoError if the file cannot be opened.
  explicit SentencePairReader(const std::filesystem::path& path) : lines_(path) {}

  // Reads the next pair; false at the end. Throws DataError naming file and line for another number of
  // fields, a text that is empty or not UTF-8, and a score that is not a finite number; IoError.
  bool next(SentencePair& pair);

  int64_t lines() const { return lines_.lines(); }  // lines read so far

 private:
  text::LineReader lines_;
  std::string line_;
  size_t fields_ = 0;  // of the first line
};

}  // namespace qkv::data
