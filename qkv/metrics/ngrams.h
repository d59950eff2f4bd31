#pragma once
// What BLEU and chrF share: n-gram counts, checks of the corpus, and numbers as text.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace qkv::metrics {

using NgramCounts = std::unordered_map<std::u32string_view, int64_t>;

// How often each run of n >= 1 symbols occurs; the keys are views into `sequence`, which must outlive them.
NgramCounts count_ngrams(std::u32string_view sequence, int n);

// Numbers words, so that a sequence of words is a string of symbols. Equal words get equal symbols.
class WordNumbers {
 public:
  std::u32string number(const std::vector<std::u32string_view>& words);

 private:
  std::unordered_map<std::u32string, char32_t> numbers_;
};

// Throws DataError for an empty corpus, for no references, and where a set of references has another number
// of segments than the hypotheses (naming both).
void check_corpus(const std::string& metric, const std::vector<std::string>& hypotheses,
                  const std::vector<std::vector<std::string>>& reference_sets);

// The number with so many digits after the point, whatever the locale; "inf" and "nan" as such.
std::string fixed(double number, int digits);

// The last part of every signature. sacreBLEU writes its own version there ("version:2.6.0"); the scores are
// held to be equal, but another program computed them, and says so.
inline constexpr char kSignatureVersion[] = "qkv-0.1.0";

}  // namespace qkv::metrics
