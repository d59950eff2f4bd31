#pragma once
// Shared by BLEU and chrF: n-gram counts, corpus checks, and number formatting.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace qkv::metrics {

inline constexpr int kMaxOrder = 1000;  // of n-grams

using NgramCounts = std::unordered_map<std::u32string_view, int64_t>;

// Counts of the n-grams of `sequence`, n >= 1. Keys are views into `sequence`, which must outlive them.
NgramCounts count_ngrams(std::u32string_view sequence, int n);

// Numbers words, so that a sequence of words is a string of symbols. Equal words have equal symbols.
class WordNumbers {
 public:
  std::u32string number(const std::vector<std::u32string_view>& words);

 private:
  std::unordered_map<std::u32string, char32_t> numbers_;
};

// Throws DataError for an empty corpus, for no references, and for a set of references whose number of
// segments differs from the hypotheses' (naming both).
void check_corpus(const std::string& metric, const std::vector<std::string>& hypotheses,
                  const std::vector<std::vector<std::string>>& reference_sets);

// The number with `digits` decimals, independent of the locale; "inf" and "nan" for non-finite values.
std::string fixed(double number, int digits);

// The last field of a signature. sacreBLEU writes its own version ("version:2.6.0"); scores are equal, but
// the signature names the program that computed them.
inline constexpr char kSignatureVersion[] = "qkv-0.1.0";

}  // namespace qkv::metrics
