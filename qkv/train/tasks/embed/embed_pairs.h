#pragma once
// Tokenized pairs of sentences, in memory.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "qkv/data/token_rows.h"
#include "qkv/text/tokenizer.h"
#include "qkv/train/task.h"

namespace qkv::train {

struct EmbedPairs {
  data::TokenRows first, second;  // special tokens included
  std::vector<float> scores;      // one per pair, or none

  int64_t pairs() const { return first.sequences(); }
  bool scored() const { return !scores.empty(); }
  // The ids of a pair's sentence; sentence i is pair i's first, sentence pairs() + i its second.
  std::span<const int32_t> sentence(int64_t i) const;
  // A hash of ids and scores.
  uint64_t fingerprint() const;
  template <class Function>
  void members(const Function& function) {
    function(first.ids, first.offsets, second.ids, second.offsets, scores);
  }

  // Reads a file (data::SentencePairReader) on all threads. Tokens beyond max_length are cut off. Throws the
  // reader's errors, DataError for a file without pairs, Stopped soon after *stop becomes true.
  static EmbedPairs read(const std::filesystem::path& path, const text::Tokenizer& tokenizer,
                         int64_t max_length, const std::atomic<bool>* stop = nullptr);
};

struct EmbedBatch : Batch {
  data::TokenRows rows;  // the first sentences of all pairs, then the second ones
  std::vector<float> scores;
  std::vector<uint64_t> first_keys, second_keys;  // equal for equal sentences
};

// A batch of these pairs, in this order.
std::unique_ptr<EmbedBatch> make_batch(const EmbedPairs& pairs, std::span<const int64_t> items);

}  // namespace qkv::train
