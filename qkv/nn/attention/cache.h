#pragma once
// KV caches: keys and values kept between decoding steps. They belong to requests, not to models.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/kernels/cache_block_table.h"
#include "qkv/tensor/ragged.h"

namespace qkv::nn {

struct CacheOptions {
  // f32; bf16, half the memory; or q8_0, 8 bits in blocks of 32 with a scale, 0.27 of it. Keys and values are
  // rounded to nearest.
  DType dtype = DType::f32;
  // Positions before the last `window` are dropped, because no later query attends to them; 0: none.
  int64_t window = 0;
};

// The self-attention keys and values of one layer, for sequences that are added (join) and removed (reorder),
// each with rows, its hypotheses. Memory consists of blocks of positions, which sequences may share (share)
// and which are freed with their last owner. Positions never move: a row is a list of their numbers, so that
// rows of a sequence share their common prefix and reorder() copies only lists.
class KeyValueCache {
 public:
  KeyValueCache() = default;
  // Creates `sequences` sequences of one empty row each. Throws UsageError for a dtype other than f32, bf16
  // or q8_0, and for a negative number or window.
  explicit KeyValueCache(int64_t sequences, const CacheOptions& options = {});
  // Not copyable: a copy would append to the same blocks.
  KeyValueCache(KeyValueCache&&) = default;
  KeyValueCache& operator=(KeyValueCache&&) = default;

  int64_t sequences() const { return static_cast<int64_t>(sequences_.size()); }
  int64_t rows() const { return static_cast<int64_t>(numbers_.size()); }
  DType dtype() const { return options_.dtype; }
  // The row's number of positions, dropped ones included. Throws ShapeError for a row that does not exist.
  int64_t length(int64_t row) const;
  Tensor lengths() const;  // of all rows, i32 [rows], on the host: the positions of their next tokens

  // Appends positions offsets.begin(i) to offsets.end(i) to row i: keys [positions, key width], values
  // [positions, value width], f32, any strides. The first call determines the widths and the device. Rows of
  // a sequence must have equal lengths. Throws ShapeError, also for widths that are no multiples of the
  // dtype's block.
  void append(const Tensor& keys, const Tensor& values, const Offsets& offsets);
  // Drops positions that have left the window, in groups of positions. Call it after the attention of a step,
  // whose queries still see further back than the next ones.
  void forget();
  // Appends the sequences of another cache. Throws what require_joinable() throws; std::bad_alloc, unless
  // there is room for them (reserve).
  void join(KeyValueCache others);
  // Throws ShapeError or UsageError if the other's widths, dtype or window differ.
  void require_joinable(const KeyValueCache& others) const;
  // Makes room for this many more sequences and rows.
  void reserve(int64_t sequences, int64_t rows);
  // The inverse of join(): one cache per sequence, in order; this one becomes empty.
  std::vector<KeyValueCache> split();
  // Row i becomes the former row parents[i] of the same sequence; sequence s then has rows
  // hypothesis_offsets.begin(s) to hypothesis_offsets.end(s). A sequence without rows is removed; later ones
  // move up. Throws ShapeError.
  void reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets);

  // Whether share(positions) is possible: not if a window has dropped positions that the next query would
  // attend to.
  bool can_share(int64_t positions) const;
  // A cache of one sequence with one row, consisting of the first positions of this one's first row, in the
  // same memory but for fewer than 64 at the end, which are copied. Later appends to either are separate.
  // Throws UsageError unless can_share().
  KeyValueCache share(int64_t positions) const;

  // The last positions of each row, at most `last`. Valid until the cache changes.
  std::vector<kernels::CacheRow> positions(int64_t last = INT64_MAX) const;
  // The remaining entries of all rows, concatenated: [positions, key width + value width] of the dtype
  // `result`, f32 or bf16.
  Tensor load(DType result = DType::f32) const;
  Offsets entry_offsets() const;  // row boundaries of load()

  // Bytes of the blocks, including those shared with other caches.
  int64_t bytes() const;

 private:
  struct Sequence {
    int64_t rows = 1;
    kernels::CacheBlockTable blocks = {};      // tensors [positions, key width + value width]
    std::vector<int64_t> last_positions = {};  // of each tensor: the last position that any row has in it
    int32_t next = 0, end = 0;                 // numbers of the last tensor's unused positions
    int64_t forgotten = 0;                     // positions dropped at the beginning
  };
  // New positions of the rows, whose numbers are appended.
  std::vector<kernels::CacheRow> take_positions(const Offsets& offsets);
  int32_t take_position(Sequence& sequence, int64_t position, int64_t needed);
  const Sequence& sequence_of(int64_t row) const;
  void require_row(int64_t row) const;

  CacheOptions options_;
  std::vector<Sequence> sequences_;
  std::vector<std::vector<int32_t>> numbers_;  // by row, in its sequence's blocks
  int64_t key_width_ = 0, value_width_ = 0;
  Device device_ = Device::cpu;
};

// A sequence in a KeyValueCache: one row reads `prompt` positions, at most `chunk` of them at a time (0: all
// at once), then each of up to `rows` rows appends `steps` positions, one at a time.
struct CacheUse {
  int64_t prompt = 0, chunk = 0;
  int64_t rows = 1, steps = 0;
};
// Upper bound of the positions in the blocks of that sequence, over its rows, where forget() follows each
// attention. Throws UsageError for negative numbers and overflow.
int64_t cached_positions(const CacheUse& use, int64_t window, Device device);
// Upper bound of a KeyValueCache's bytes in blocks for a sequence with this total number of positions over
// its rows. Throws UsageError for sizes that overflow and a width that is no multiple of the dtype's block.
int64_t block_bytes(int64_t positions, int64_t width, DType dtype);

// One layer's keys and values of the encoder output, computed once per sentence and shared by its hypotheses.
class MemoryKeyValues {
 public:
  MemoryKeyValues() = default;
  // keys_and_values: f32 [memory tokens, key width + value width], stored as dtype f32, bf16 or q8_0.
  MemoryKeyValues(const Tensor& keys_and_values, const Offsets& offsets, DType dtype = DType::f32);

  int64_t sentences() const { return static_cast<int64_t>(sentences_.size()); }
  DType dtype() const { return dtype_; }
  int64_t width() const { return width_; }  // of keys and values together; 0 before the first sentence
  // Appends the sentences of another. Throws what require_joinable() throws; std::bad_alloc, unless there is
  // room for them (reserve).
  void join(MemoryKeyValues others);
  // Throws UsageError if the other's width or dtype differ.
  void require_joinable(const MemoryKeyValues& others) const;
  // Makes room for this many more sentences.
  void reserve(int64_t sentences);
  // Removes the sentences without rows; later ones move up.
  void keep(const Offsets& hypothesis_offsets);

  // The tokens of a sentence. Throws ShapeError for a sentence that does not exist.
  kernels::CacheRow tokens(int64_t sentence) const;

 private:
  struct Sentence {
    kernels::CacheBlockTable blocks = {};
    std::vector<int32_t> numbers = {};
  };
  std::vector<Sentence> sentences_;
  DType dtype_ = DType::f32;
  int64_t width_ = 0;
};

}  // namespace qkv::nn
