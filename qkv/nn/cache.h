#pragma once
// What decoding remembers between steps. It belongs to a request, never to the model.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/tensor/ragged.h"

namespace qkv::nn {

// One layer's self-attention keys and values, of sentences that come (join) and go (reorder), each with rows:
// its hypotheses. What is appended stays where it is: hypotheses are lists of pointers, those of a sentence
// share their common beginning, and reordering copies lists only. The memory is the sentence's, and goes with
// it.
class KeyValueCache {
 public:
  KeyValueCache() = default;
  // Of one row without positions each.
  explicit KeyValueCache(int64_t sentences);
  // A copy would write where the original does.
  KeyValueCache(KeyValueCache&&) = default;
  KeyValueCache& operator=(KeyValueCache&&) = default;

  int64_t rows() const { return static_cast<int64_t>(entries_.size()); }
  int64_t length(int64_t row) const { return static_cast<int64_t>(entries(row).size()); }
  Tensor lengths() const;  // of all rows, i32 [rows]: where their next tokens stand

  // Appends positions offsets.begin(i) to offsets.end(i) to row i: keys [positions, key width], values
  // [positions, value width], any strides. The first call sets the widths.
  void append(const Tensor& keys, const Tensor& values, const Offsets& offsets);
  // Takes in the sentences of another cache, behind those that are there.
  void join(KeyValueCache new_requests);
  // Row i becomes what row parents[i] of the same sentence was; sentence s has the rows
  // hypothesis_offsets.begin(s) to hypothesis_offsets.end(s) now. One without rows is forgotten, and those
  // behind it move up.
  void reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets);

  // Of each position of a row: its keys, and behind them its values.
  std::span<const float* const> entries(int64_t row) const { return entries_[static_cast<size_t>(row)]; }

 private:
  struct Sentence {
    int64_t rows = 1;
    std::vector<Tensor> blocks = {};  // [positions, key width + value width]
    int64_t free = 0;                 // positions of the last block that nothing is in
  };
  std::vector<Sentence> sentences_;
  std::vector<std::vector<const float*>> entries_;  // by row
  int64_t width_ = 0;
};

// One layer's keys and values of the encoder's outputs, computed once a sentence and shared by its
// hypotheses.
class MemoryKeyValues {
 public:
  MemoryKeyValues() = default;
  // [memory tokens, key width + value width]
  MemoryKeyValues(const Tensor& keys_and_values, const Offsets& offsets);

  int64_t sentences() const { return static_cast<int64_t>(sentences_.size()); }
  // Takes in the sentences of another, behind those that are there.
  void join(MemoryKeyValues new_requests);
  // Forgets the sentences that have no rows; those behind them move up.
  void keep(const Offsets& hypothesis_offsets);

  // Of each token of a sentence: its keys, and behind them its values.
  std::span<const float* const> entries(int64_t sentence) const {
    return sentences_[static_cast<size_t>(sentence)].entries;
  }

 private:
  struct Sentence {
    Tensor keys_and_values;
    std::vector<const float*> entries = {};
  };
  std::vector<Sentence> sentences_;
};

}  // namespace qkv::nn
