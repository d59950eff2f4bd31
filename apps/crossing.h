#pragma once
// Finds the head that shows most clearly that a translation swaps two words.

#include <optional>
#include <string>
#include <vector>

#include "qkv/explain/attention_report.h"

namespace qkv::apps {

// A source word and its translation.
struct WordPair {
  std::string source, target;
  std::string followed_by = {};  // the text directly after the target word, to distinguish occurrences
};

struct CrossingHead {
  int layer = 0, head = 0;  // from 0
  // For each pair, the share of the target word's attention on the source word, averaged over its pieces: 0
  // to 1.
  std::vector<double> shares;
};

// The cross-attention head whose weakest pair is the strongest. Uses the last occurrence of a word. Nothing
// if a word does not occur.
std::optional<CrossingHead> strongest_crossing(const explain::AttentionReport& report,
                                               const std::vector<WordPair>& pairs);

}  // namespace qkv::apps
