#pragma once
// Which head shows best that a translation takes two words in the other order.

#include <optional>
#include <string>
#include <vector>

#include "qkv/explain/attention_report.h"

namespace qkv::apps {

// A word of the source and what it becomes.
struct WordPair {
  std::string source, target;
  std::string followed_by = {};  // what follows the target word directly, to tell it from others like it
};

struct CrossingHead {
  int layer = 0, head = 0;  // from 0
  // For each pair, the share of the target word's attention that falls on the source word, the mean over its
  // pieces: 0 to 1.
  std::vector<double> shares;
};

// The head of the decoder's attention over the source whose weakest pair is the strongest. Of a word that
// occurs several times, the last is meant. Nothing where one does not occur.
std::optional<CrossingHead> strongest_crossing(const explain::AttentionReport& report,
                                               const std::vector<WordPair>& pairs);

}  // namespace qkv::apps
