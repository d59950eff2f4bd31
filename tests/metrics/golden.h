#pragma once
// Reads the files written by tests/golden/metrics.py.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/base/files.h"

namespace golden {

inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string_view::npos; begin = end + 1) {
    parts.emplace_back(text.substr(begin, end - begin));
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

// Converts "\xHH" back to a byte.
inline std::string unescape(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      bytes += static_cast<char>(std::stoi(std::string(text.substr(i + 2, 2)), nullptr, 16));
      i += 3;
    } else {
      bytes += text[i];
    }
  }
  return bytes;
}

inline std::vector<std::vector<std::string>> read(const std::string& name) {
  const std::string content = qkv::read_file(QKV_TEST_DATA "/metrics/golden/" + name);
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : split(std::string_view(content).substr(0, content.size() - 1), '\n')) {
    rows.push_back(split(line, '\t'));
  }
  return rows;
}

struct Corpus {
  std::vector<std::string> hypotheses;
  std::vector<std::vector<std::string>> reference_sets;
};

inline std::map<std::string, Corpus> read_corpora() {
  std::map<std::string, Corpus> corpora;
  for (const auto& row : read("corpora.tsv")) {
    Corpus& corpus = corpora[row[0]];
    corpus.hypotheses.push_back(unescape(row[1]));
    corpus.reference_sets.resize(row.size() - 2);
    for (size_t set = 0; set + 2 < row.size(); ++set)
      corpus.reference_sets[set].push_back(unescape(row[set + 2]));
  }
  return corpora;
}

// sacreBLEU's line with qkv's version, the only difference.
inline std::string with_own_version(std::string line) {
  const size_t begin = line.find("|version:") + 9, end = line.find(" = ");
  return line.replace(begin, end - begin, "qkv-0.1.0");
}

// Equal to 1e-9 of the expected value; exactly equal if that is zero.
inline void expect_close(double found, const std::string& expected, const std::string& what) {
  const double number = std::stod(expected);
  EXPECT_NEAR(found, number, 1e-9 * number) << what;
}

}  // namespace golden
