#pragma once
// Files of texts, each with a label.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace qkv::data {

enum class TextFormat {
  automatic,  // JSON if the first line begins with {; tab if it has one; else space
  tab,        // label<TAB>text, or label<TAB>text<TAB>second text
  space,      // the label, a space, the text
  json,       // {"label": ..., "text": "...", "text_pair": "..."}; the last one for pairs of texts
};

struct LabelledText {
  std::string label, first;
  std::string second;  // of a pair of texts
  int64_t line = 0;    // in the file, from 1
};

struct LabelledTexts {
  std::filesystem::path file;
  bool pairs = false;  // all texts are pairs, or none is
  std::vector<LabelledText> items;

  // "train.tsv:3"
  std::string where(const LabelledText& item) const;
};

// Reads a file, which gzip may compress. Blank lines are skipped. Throws IoError; DataError naming file and
// line for a missing label, an empty text, another number of columns than in the first line, invalid JSON or
// UTF-8, and for a file without texts.
LabelledTexts read_labelled_texts(const std::filesystem::path& file, TextFormat format);

}  // namespace qkv::data
