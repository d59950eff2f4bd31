#pragma once
// Byte-pair encoding (Sennrich et al. 2016): repeatedly merges the most frequent pair of adjacent symbols of
// counted words into a new symbol.

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "qkv/text/train_tokenizer.h"

namespace qkv::text {

// Distinct words as sequences of token ids, one after the other.
struct SpelledWords {
  std::vector<uint32_t> symbols;
  std::vector<size_t> ends;     // of each word in `symbols`
  std::vector<int64_t> counts;  // occurrences of each word
};

struct MergeOptions {
  int64_t vocab_size = 0;     // stops when `tokens` has this many
  int64_t min_frequency = 1;  // stops when no pair occurs this often
  std::string prefix = {};    // of tokens within a word; a merged token has only that of its first part
};

using MergedPairs = std::vector<std::pair<uint32_t, uint32_t>>;

// Appends the merged tokens to `tokens`, whose index is the id; returns the pairs in order of rank. Of
// equally frequent pairs, the one with the lower first id, then the lower second id, is merged first. A pair
// occurs once at each position, overlaps included ("aaa" has two), but is merged from left to right without
// overlaps. A merged token that exists already keeps its id. Throws Stopped.
MergedPairs merge_pairs(SpelledWords words, std::vector<std::string>& tokens, const MergeOptions& options,
                        TokenizerProgress& progress, const TokenizerObserver& observer,
                        const std::atomic<bool>* stop);

}  // namespace qkv::text
