#include "qkv/nn/attention/cache.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/kernels/attention.h"
#include "qkv/kernels/key_value_cache.h"
#include "qkv/ops/require.h"

namespace qkv::nn {
namespace {

constexpr int64_t kBlockPositions = kernels::CacheBlockTable::kPositions;
// The most positions of a tensor: caches free them one by one behind a window, and share them.
constexpr int64_t kTensorPositions = 64;

int64_t whole_blocks(int64_t positions) {
  return (positions + kBlockPositions - 1) / kBlockPositions * kBlockPositions;
}

void require_sequences(size_t sequences, const Offsets& hypothesis_offsets) {
  if (static_cast<int64_t>(sequences) != hypothesis_offsets.sequences()) {
    throw ShapeError(
        concat("cache of ", sequences, " sequences: found rows of ", hypothesis_offsets.sequences()));
  }
}

DType checked(DType dtype) {
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::q8_0)
    throw UsageError(concat("cache: expected dtype f32, bf16 or q8_0, found ", name_of(dtype)));
  return dtype;
}

bool fits_blocks(DType dtype, int64_t width) { return width % layout_of(dtype).block == 0; }

// Removes the elements of sequences without rows.
template <class T>
void retain_active(std::vector<T>& sequences, const Offsets& hypothesis_offsets) {
  size_t kept = 0;
  for (size_t s = 0; s < sequences.size(); ++s) {
    if (hypothesis_offsets.length(static_cast<int64_t>(s)) == 0) continue;
    if (kept < s) sequences[kept] = std::move(sequences[s]);
    ++kept;
  }
  sequences.erase(sequences.begin() + static_cast<std::ptrdiff_t>(kept), sequences.end());
}

// Reserves memory for `more` further elements.
template <class T>
void reserve_tail(std::vector<T>& all, int64_t more) {
  const size_t needed = all.size() + static_cast<size_t>(more);
  if (needed > all.capacity()) all.reserve(std::max(needed, 2 * all.capacity()));
}

template <class T>
void append_moved(std::vector<T>& all, std::vector<T>& others) {
  all.insert(all.end(), std::make_move_iterator(others.begin()), std::make_move_iterator(others.end()));
}

}  // namespace

int64_t cached_positions(const CacheUse& use, int64_t window, Device device) {
  int64_t all = 0, overflow = 0;
  if (use.prompt < 0 || use.chunk < 0 || use.rows < 0 || use.steps < 0 || window < 0 ||
      __builtin_mul_overflow(use.rows, use.steps, &all) || __builtin_add_overflow(all, use.prompt, &all)) {
    throw UsageError(concat("cache: expected fewer than 2^63 positions, found a prompt of ", use.prompt,
                            ", read ", use.chunk, " at a time, and ", use.rows, " rows of ", use.steps,
                            " with a window of ", window));
  }
  if (window == 0 || window >= all) return all;
  // forget() leaves a row at most window - 1 positions and an incomplete group of older ones. A block stays
  // as long as one of its positions does, and the last block has unused ones.
  const int64_t kept = window + kernels::attention_key_group(device);
  const int64_t chunk = use.chunk == 0 ? use.prompt : std::min(use.chunk, use.prompt);
  if (__builtin_mul_overflow(use.rows, kept, &overflow)) return all;
  return std::min(all, std::max(kept + chunk, use.rows * kept) + 2 * kTensorPositions);
}

int64_t block_bytes(int64_t positions, int64_t width, DType dtype) {
  constexpr int64_t kMost = int64_t{1} << 60;
  if (positions < 0 || width < 0 || positions > kMost / std::max<int64_t>(1, width) / 64) {
    throw UsageError(concat("cache: expected sizes of fewer than 2^54 elements, found ", positions,
                            " positions of width ", width));
  }
  if (!fits_blocks(dtype, width)) {
    throw UsageError(concat("cache dtype ", name_of(dtype), ": expected keys and values of a multiple of ",
                            layout_of(dtype).block, " numbers (key heads times d_k or d_v), found ", width));
  }
  return static_cast<int64_t>(bytes_of(dtype, whole_blocks(positions) * width));
}

KeyValueCache::KeyValueCache(int64_t sequences, const CacheOptions& options) : options_(options) {
  checked(options.dtype);
  if (sequences < 0 || sequences > INT32_MAX || options.window < 0) {
    throw UsageError(concat("cache: expected a number of sequences and a window of at least 0, found ",
                            sequences, " and ", options.window));
  }
  sequences_.resize(static_cast<size_t>(sequences));
  numbers_.resize(static_cast<size_t>(sequences));
}

void KeyValueCache::require_row(int64_t row) const {
  if (row < 0 || row >= rows()) throw ShapeError(concat("cache of ", rows(), " rows: no row ", row));
}

const KeyValueCache::Sequence& KeyValueCache::sequence_of(int64_t row) const {
  size_t s = 0;
  for (; row >= sequences_[s].rows; ++s) row -= sequences_[s].rows;
  return sequences_[s];
}

int64_t KeyValueCache::length(int64_t row) const {
  require_row(row);
  return std::ssize(numbers_[static_cast<size_t>(row)]) + sequence_of(row).forgotten;
}

Tensor KeyValueCache::lengths() const {
  Tensor lengths = Tensor::empty({rows()}, DType::i32);
  size_t row = 0;
  for (const Sequence& sequence : sequences_) {
    for (const size_t end = row + static_cast<size_t>(sequence.rows); row < end; ++row) {
      lengths.data<int32_t>()[row] = static_cast<int32_t>(std::ssize(numbers_[row]) + sequence.forgotten);
    }
  }
  return lengths;
}

// The number of a new position; `needed`: new positions left in this call, including this one.
int32_t KeyValueCache::take_position(Sequence& sequence, int64_t position, int64_t needed) {
  if (sequence.next == sequence.end) {
    const int64_t count = whole_blocks(std::min(needed, kTensorPositions));
    sequence.next =
        sequence.blocks.append(Tensor::empty({count, key_width_ + value_width_}, options_.dtype, device_));
    sequence.end = sequence.next + static_cast<int32_t>(count);
    sequence.last_positions.push_back(position);
  }
  sequence.last_positions.back() = std::max(sequence.last_positions.back(), position);
  return sequence.next++;
}

void KeyValueCache::append(const Tensor& keys, const Tensor& values, const Offsets& offsets) {
  const int64_t positions = offsets.tokens();
  const auto is_matrix = [](const Tensor& x) {
    return x.defined() && is_activation(x) && x.rank() == 2 && x.cols() > 0;
  };
  if (!is_matrix(keys) || !is_matrix(values) || keys.device() != values.device()) {
    throw ShapeError(concat(
        "cache: expected f32 or bf16 keys and values [positions, width] on one device, found ",
        name_of(keys.dtype()), " ", keys.shape(), " and ", name_of(values.dtype()), " ", values.shape()));
  }
  if (offsets.sequences() != rows() || keys.rows() != positions || values.rows() != positions ||
      (key_width_ != 0 && (key_width_ != keys.cols() || value_width_ != values.cols()))) {
    throw ShapeError(concat("cache of ", rows(), " rows: cannot append keys ", keys.shape(), " and values ",
                            values.shape(), " to ", offsets.sequences(), " rows"));
  }
  for (int64_t first = 0; const Sequence& sequence : sequences_) {
    for (int64_t own = first; own < first + sequence.rows; ++own) {
      if (offsets.length(own) == offsets.length(first)) continue;
      throw ShapeError(concat("cache: expected rows of a sequence to have equal lengths, found ",
                              offsets.length(first), " and ", offsets.length(own), " new positions"));
    }
    first += sequence.rows;
  }
  if (!fits_blocks(options_.dtype, keys.cols()) || !fits_blocks(options_.dtype, values.cols())) {
    throw ShapeError(concat("cache: expected widths that are multiples of ", layout_of(options_.dtype).block,
                            " for dtype ", name_of(options_.dtype), ", found keys ", keys.shape(),
                            " and values ", values.shape()));
  }
  key_width_ = keys.cols();
  value_width_ = values.cols();
  device_ = keys.device();
  kernels::store_cached(keys, values, options_.dtype, take_positions(offsets));
}

std::vector<kernels::CacheRow> KeyValueCache::take_positions(const Offsets& offsets) {
  std::vector<kernels::CacheRow> taken(numbers_.size());
  int64_t row = 0;
  for (Sequence& sequence : sequences_) {
    int64_t needed = offsets.begin(row + sequence.rows) - offsets.begin(row);
    for (const int64_t end = row + sequence.rows; row < end; ++row) {
      std::vector<int32_t>& own = numbers_[static_cast<size_t>(row)];
      for (int64_t i = 0; i < offsets.length(row); ++i)
        own.push_back(take_position(sequence, std::ssize(own) + sequence.forgotten, needed--));
      taken[static_cast<size_t>(row)].numbers = std::span(own).last(static_cast<size_t>(offsets.length(row)));
    }
    for (int64_t own = row - sequence.rows; own < row; ++own)
      taken[static_cast<size_t>(own)].blocks = sequence.blocks.blocks();
  }
  return taken;
}

void KeyValueCache::forget() {
  if (options_.window == 0) return;
  const int64_t group = kernels::attention_key_group(device_);
  size_t row = 0;
  for (Sequence& sequence : sequences_) {
    const size_t end = row + static_cast<size_t>(sequence.rows);
    // The next query attends to its own position and the window - 1 before it.
    const int64_t length = std::ssize(numbers_[row]) + sequence.forgotten;
    const int64_t unseen = std::max<int64_t>(0, length - (options_.window - 1));
    // In whole groups, so that attention over a prompt read in chunks sums in the same order as over one read
    // at once.
    const int64_t forgotten = unseen / group * group;
    if (forgotten <= sequence.forgotten) {
      row = end;
      continue;
    }
    size_t free = 0;
    std::vector<int64_t>& last = sequence.last_positions;
    while (free < last.size() && last[free] < forgotten) ++free;
    if (free == last.size()) sequence.next = sequence.end;
    sequence.blocks.drop(free);
    last.erase(last.begin(), last.begin() + static_cast<std::ptrdiff_t>(free));
    for (; row < end; ++row) {
      std::vector<int32_t>& own = numbers_[row];
      own.erase(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(forgotten - sequence.forgotten));
    }
    sequence.forgotten = forgotten;
  }
}

void KeyValueCache::require_joinable(const KeyValueCache& others) const {
  if (key_width_ != 0 && others.key_width_ != 0 &&
      (key_width_ != others.key_width_ || value_width_ != others.value_width_)) {
    throw ShapeError(concat("cache of widths ", key_width_, " and ", value_width_, ": cannot take in one of ",
                            others.key_width_, " and ", others.value_width_));
  }
  if (!others.sequences_.empty() && !sequences_.empty() &&
      (options_.dtype != others.options_.dtype || options_.window != others.options_.window)) {
    throw UsageError(concat("cache of ", name_of(options_.dtype), " with a window of ", options_.window,
                            ": cannot take in one of ", name_of(others.options_.dtype), " with ",
                            others.options_.window));
  }
}

void KeyValueCache::reserve(int64_t sequences, int64_t rows) {
  reserve_tail(sequences_, sequences);
  reserve_tail(numbers_, rows);
}

void KeyValueCache::join(KeyValueCache others) {
  require_joinable(others);
  if (!others.sequences_.empty()) options_ = others.options_;
  if (others.key_width_ != 0) {
    key_width_ = others.key_width_;
    value_width_ = others.value_width_;
    device_ = others.device_;
  }
  append_moved(sequences_, others.sequences_);
  append_moved(numbers_, others.numbers_);
}

std::vector<KeyValueCache> KeyValueCache::split() {
  std::vector<KeyValueCache> parts;
  size_t row = 0;
  for (Sequence& sequence : sequences_) {
    KeyValueCache& part = parts.emplace_back(0, options_);
    part.key_width_ = key_width_;
    part.value_width_ = value_width_;
    part.device_ = device_;
    for (const size_t end = row + static_cast<size_t>(sequence.rows); row < end; ++row)
      part.numbers_.push_back(std::move(numbers_[row]));
    part.sequences_.push_back(std::move(sequence));
  }
  sequences_.clear();
  numbers_.clear();
  return parts;
}

void KeyValueCache::reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets) {
  require_sequences(sequences_.size(), hypothesis_offsets);
  if (std::ssize(parents) != hypothesis_offsets.tokens()) {
    throw ShapeError(concat("cache: expected a parent for each of ", hypothesis_offsets.tokens(),
                            " rows, found ", parents.size()));
  }
  int64_t first = 0;
  for (int64_t s = 0; s < hypothesis_offsets.sequences(); ++s) {
    const int64_t end = first + sequences_[static_cast<size_t>(s)].rows;
    for (int64_t row = hypothesis_offsets.begin(s); row < hypothesis_offsets.end(s); ++row) {
      // Another sequence's blocks may go with that sequence.
      const int32_t parent = parents[static_cast<size_t>(row)];
      if (parent >= first && parent < end) continue;
      throw ShapeError(concat("cache: expected a parent from ", first, " to ", end - 1, " for row ", row,
                              ", of its sequence, found ", parent));
    }
    first = end;
  }
  std::vector<std::vector<int32_t>> reordered(parents.size());
  std::vector<int32_t> children(numbers_.size());
  for (const int32_t parent : parents) ++children[static_cast<size_t>(parent)];
  for (size_t row = 0; row < parents.size(); ++row) {
    const auto parent = static_cast<size_t>(parents[row]);
    // The last child takes over its parent's list.
    reordered[row] = --children[parent] == 0 ? std::move(numbers_[parent]) : numbers_[parent];
  }
  numbers_ = std::move(reordered);
  for (size_t s = 0; s < sequences_.size(); ++s)
    sequences_[s].rows = hypothesis_offsets.length(static_cast<int64_t>(s));
  retain_active(sequences_, hypothesis_offsets);
}

bool KeyValueCache::can_share(int64_t positions) const {
  if (rows() == 0 || positions < 0 || positions > length(0)) return false;
  const int64_t first_seen = options_.window == 0 ? 0 : positions - (options_.window - 1);
  return sequences_.front().forgotten <= std::max<int64_t>(0, first_seen);
}

KeyValueCache KeyValueCache::share(int64_t positions) const {
  if (!can_share(positions)) {
    throw UsageError(concat("cache: cannot share ", positions, " positions of ", rows() == 0 ? 0 : length(0),
                            rows() == 0 ? 0 : sequences_.front().forgotten, " of which are forgotten"));
  }
  KeyValueCache shared(1, options_);
  shared.key_width_ = key_width_;
  shared.value_width_ = value_width_;
  shared.device_ = device_;
  const Sequence& from = sequences_.front();
  Sequence& to = shared.sequences_.front();
  to.forgotten = from.forgotten;
  // Tensors without an unused or a later position are shared, and the positions after them copied: the memory
  // in use then depends on the positions alone, whatever else a tensor has.
  size_t whole = 0;
  const size_t complete = from.last_positions.size() - (from.next < from.end ? 1 : 0);
  while (whole < complete && from.last_positions[whole] < positions) ++whole;
  to.blocks = from.blocks.share(whole);
  to.last_positions.assign(from.last_positions.begin(),
                           from.last_positions.begin() + static_cast<std::ptrdiff_t>(whole));
  const std::span own = std::span(numbers_.front()).first(static_cast<size_t>(positions - from.forgotten));
  const auto end_of_shared = static_cast<int32_t>(std::ssize(to.blocks.blocks()) * kBlockPositions);
  const auto after = std::ranges::lower_bound(own, end_of_shared);
  shared.numbers_.front().assign(own.begin(), after);
  const kernels::CacheRow rest{from.blocks.blocks(), {after, own.end()}};
  if (rest.numbers.empty()) return shared;
  const std::vector<kernels::CacheRow> copies =
      shared.take_positions(Offsets::uniform(1, std::ssize(rest.numbers)));
  kernels::copy_cached(rest, copies.front(), options_.dtype, device_, key_width_ + value_width_);
  return shared;
}

std::vector<kernels::CacheRow> KeyValueCache::positions(int64_t last) const {
  std::vector<kernels::CacheRow> rows;
  rows.reserve(numbers_.size());
  for (const Sequence& sequence : sequences_) {
    for (int64_t i = 0; i < sequence.rows; ++i) {
      const std::span<const int32_t> all = numbers_[rows.size()];
      rows.push_back({sequence.blocks.blocks(),
                      all.last(static_cast<size_t>(std::clamp<int64_t>(last, 0, std::ssize(all))))});
    }
  }
  return rows;
}

Tensor KeyValueCache::load(DType result) const {
  return kernels::load_cached(positions(), options_.dtype, device_, key_width_ + value_width_, result);
}

Offsets KeyValueCache::entry_offsets() const {
  std::vector<int32_t> lengths;
  for (const auto& row : numbers_) lengths.push_back(static_cast<int32_t>(row.size()));
  return Offsets::of_lengths(lengths);
}

int64_t KeyValueCache::bytes() const {
  size_t bytes = 0;
  for (const Sequence& sequence : sequences_) bytes += sequence.blocks.bytes();
  return static_cast<int64_t>(bytes);
}

MemoryKeyValues::MemoryKeyValues(const Tensor& keys_and_values, const Offsets& offsets, DType dtype)
    : dtype_(checked(dtype)), width_(keys_and_values.cols()) {
  if (!keys_and_values.defined() || !is_activation(keys_and_values) || keys_and_values.rank() != 2 ||
      keys_and_values.rows() != offsets.tokens()) {
    throw ShapeError(concat("memory: expected f32 or bf16 keys and values [", offsets.tokens(),
                            ", width], found ", name_of(keys_and_values.dtype()), " ",
                            keys_and_values.shape()));
  }
  if (!fits_blocks(dtype, width_)) {
    throw ShapeError(concat("memory: expected a width that is a multiple of ", layout_of(dtype).block,
                            " for dtype ", name_of(dtype), ", found ", width_));
  }
  for (int64_t s = 0; s < offsets.sequences(); ++s) {
    const Tensor own = keys_and_values.slice_rows(offsets.begin(s), offsets.length(s));
    Sentence& sentence = sentences_.emplace_back();
    // With several sentences, each gets a copy, so that its memory is freed with it and not with the last of
    // its group.
    const bool copies = offsets.sequences() > 1 || dtype != own.dtype() || !own.contiguous();
    sentence.blocks.append(copies ? Tensor::empty({own.rows(), own.cols()}, dtype, own.device()) : own);
    sentence.numbers.resize(static_cast<size_t>(own.rows()));
    std::iota(sentence.numbers.begin(), sentence.numbers.end(), 0);
    const kernels::CacheRow to = tokens(s);
    if (copies) kernels::store_cached(own, own.columns(0, 0), dtype, {&to, 1});
  }
}

kernels::CacheRow MemoryKeyValues::tokens(int64_t sentence) const {
  if (sentence < 0 || sentence >= sentences())
    throw ShapeError(concat("memory of ", sentences(), " sentences: no sentence ", sentence));
  const Sentence& own = sentences_[static_cast<size_t>(sentence)];
  return {own.blocks.blocks(), own.numbers};
}

void MemoryKeyValues::require_joinable(const MemoryKeyValues& others) const {
  if (others.sentences_.empty() || sentences_.empty()) return;
  if (width_ == others.width_ && dtype_ == others.dtype_) return;
  throw UsageError(concat("memory of ", name_of(dtype_), " and width ", width_, ": cannot take in one of ",
                          name_of(others.dtype_), " and width ", others.width_));
}

void MemoryKeyValues::reserve(int64_t sentences) { reserve_tail(sentences_, sentences); }

void MemoryKeyValues::join(MemoryKeyValues others) {
  require_joinable(others);
  if (others.sentences_.empty()) return;
  dtype_ = others.dtype_;
  width_ = others.width_;
  append_moved(sentences_, others.sentences_);
}

void MemoryKeyValues::keep(const Offsets& hypothesis_offsets) {
  require_sequences(sentences_.size(), hypothesis_offsets);
  retain_active(sentences_, hypothesis_offsets);
}

}  // namespace qkv::nn
