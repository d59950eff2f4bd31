#include "qkv/metrics/ngrams.h"

#include <charconv>
#include <cmath>

#include "qkv/base/error.h"

namespace qkv::metrics {

NgramCounts count_ngrams(std::u32string_view sequence, int n) {
  NgramCounts counts;
  const size_t length = static_cast<size_t>(n);
  if (sequence.size() < length) return counts;
  counts.reserve(sequence.size() - length + 1);
  for (size_t i = 0; i + length <= sequence.size(); ++i) ++counts[sequence.substr(i, length)];
  return counts;
}

std::u32string WordNumbers::number(const std::vector<std::u32string_view>& words) {
  std::u32string symbols;
  symbols.reserve(words.size());
  for (const std::u32string_view word : words) {
    const char32_t next = static_cast<char32_t>(numbers_.size());
    symbols += numbers_.try_emplace(std::u32string(word), next).first->second;
  }
  return symbols;
}

void check_corpus(const std::string& metric, const std::vector<std::string>& hypotheses,
                  const std::vector<std::vector<std::string>>& reference_sets) {
  if (hypotheses.empty())
    throw DataError(concat(metric, ": expected at least one hypothesis, found an empty corpus"));
  if (reference_sets.empty())
    throw DataError(concat(metric, ": expected at least one set of references, found none"));
  for (size_t i = 0; i < reference_sets.size(); ++i) {
    if (reference_sets[i].size() == hypotheses.size()) continue;
    const std::string which = reference_sets.size() == 1 ? "" : concat(" in set ", i + 1);
    throw DataError(concat(metric, ": expected one reference for each hypothesis, found ", hypotheses.size(),
                           " hypotheses and ", reference_sets[i].size(), " references", which));
  }
}

std::string fixed(double number, int digits) {
  if (digits < 0 || digits > 1000)
    throw UsageError(concat("digits: expected 0 to 1000 decimals, found ", digits));
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  std::string text(352 + static_cast<size_t>(digits),
                   '\0');  // the largest double has 309 digits before the decimal point
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed, digits);
  text.resize(static_cast<size_t>(end.ptr - text.data()));
  return text;
}

}  // namespace qkv::metrics
