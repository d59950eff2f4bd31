#pragma once
// Caches of keys and values, which decoding keeps between steps. They belong to requests, never to a model.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/tensor/ragged.h"

namespace qkv::nn {

struct CacheOptions {
  DType dtype = DType::f32;  // or bf16: half the memory; keys and values are rounded to nearest
  // Positions before the last `window` are forgotten, as no query sees them again; 0: none is.
  int64_t window = 0;
};

// One layer's self-attention keys and values, of sequences that come (join) and go (reorder), each with rows:
// its hypotheses. Memory is blocks of positions, owned together by the sequences that share them (share), and
// freed by the last. What is appended is never moved: a row is a list of addresses, the rows of a sequence
// share their common beginning, and reorder() copies lists alone.
class KeyValueCache {
 public:
  KeyValueCache() = default;
  // Sequences of one row without positions each. Throws UsageError for a dtype that is not f32 or bf16.
  explicit KeyValueCache(int64_t sequences, const CacheOptions& options = {});
  // A copy would write where the original does.
  KeyValueCache(KeyValueCache&&) = default;
  KeyValueCache& operator=(KeyValueCache&&) = default;

  int64_t rows() const { return static_cast<int64_t>(entries_.size()); }
  DType dtype() const { return options_.dtype; }
  // Positions that a row has had, those that are forgotten among them.
  int64_t length(int64_t row) const;
  Tensor lengths() const;  // of all rows, i32 [rows], on the host: the positions of their next tokens

  // Appends positions offsets.begin(i) to offsets.end(i) to row i: keys [positions, key width], values
  // [positions, value width], f32, any strides. The first call sets the widths and the device. Rows of a
  // sequence must have equal lengths.
  void append(const Tensor& keys, const Tensor& values, const Offsets& offsets);
  // Forgets what the window has passed, in groups of positions. After the attention of a run or step, as its
  // queries see further back than the next ones.
  void forget();
  // Takes in the sequences of another cache, behind those that are there.
  void join(KeyValueCache others);
  // The inverse: a cache for each sequence, in their order; this one is then empty.
  std::vector<KeyValueCache> split();
  // Row i becomes the former row parents[i] of the same sequence; sequence s has the rows
  // hypothesis_offsets.begin(s) to hypothesis_offsets.end(s) now. One without rows is forgotten, and those
  // behind it move up.
  void reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets);

  // Whether share(positions) is possible: not where a window has left behind what the next query would see.
  bool can_share(int64_t positions) const;
  // A cache of one sequence and row with the first positions of this one's first row, in the same memory:
  // what either appends from now on is its own. Throws UsageError where can_share() says no.
  KeyValueCache share(int64_t positions) const;

  // The addresses of a row's last entries, on the device of the keys; at most `last` of them. An entry is a
  // position's keys, and after them its values.
  std::span<const void* const> entries(int64_t row, int64_t last = INT64_MAX) const;
  // All entries of all rows that are not forgotten, end to end: f32 [positions, key width + value width].
  Tensor load() const;
  Offsets entry_offsets() const;  // of load()'s rows

  // Bytes of the blocks, those that are shared with other caches among them.
  int64_t bytes() const;

 private:
  struct Block {
    Tensor memory;          // [positions, key width + value width]
    int64_t last_position;  // the last that any row has in it
  };
  struct Sequence {
    int64_t rows = 1;
    std::vector<Block> blocks = {};
    int64_t free = 0;       // positions of the last block that hold nothing
    int64_t forgotten = 0;  // positions at the beginning that entries no longer have
  };
  void* take_position(Sequence& sequence, int64_t position, int64_t needed);
  const Sequence& sequence_of(int64_t row) const;

  CacheOptions options_;
  std::vector<Sequence> sequences_;
  std::vector<std::vector<const void*>> entries_;  // by row
  int64_t key_width_ = 0, value_width_ = 0;
  Device device_ = Device::cpu;
};

// The most bytes that a KeyValueCache has in blocks for a sequence with so many positions, each row's own
// counted.
int64_t block_bytes(int64_t positions, int64_t width, DType dtype);

// One layer's keys and values of the encoder's outputs, computed once a sentence and shared by its
// hypotheses.
class MemoryKeyValues {
 public:
  MemoryKeyValues() = default;
  // keys_and_values: f32 [memory tokens, key width + value width], kept as dtype f32 or bf16.
  MemoryKeyValues(const Tensor& keys_and_values, const Offsets& offsets, DType dtype = DType::f32);

  int64_t sentences() const { return static_cast<int64_t>(sentences_.size()); }
  DType dtype() const { return dtype_; }
  // Takes in the sentences of another, behind those that are there.
  void join(MemoryKeyValues others);
  // Forgets the sentences that have no rows; those behind them move up.
  void keep(const Offsets& hypothesis_offsets);

  // The address of each token of a sentence: its keys, and after them its values.
  std::span<const void* const> entries(int64_t sentence) const {
    return sentences_[static_cast<size_t>(sentence)].entries;
  }

 private:
  struct Sentence {
    Tensor keys_and_values;
    std::vector<const void*> entries = {};
  };
  std::vector<Sentence> sentences_;
  DType dtype_ = DType::f32;
};

}  // namespace qkv::nn
