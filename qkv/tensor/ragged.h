#pragma once
// Ragged batches: concatenated sequences, never padded.

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "qkv/tensor/tensor.h"

namespace qkv {

// The sequence boundaries of a batch: sequence i is rows offsets[i] to offsets[i + 1]. Immutable; copies
// share the data. A batch has fewer than 2^31 tokens.
class Offsets {
 public:
  Offsets() : Offsets(std::vector<int32_t>{0}) {}
  // Throws ShapeError unless the offsets start at 0 and never decrease.
  explicit Offsets(std::vector<int32_t> offsets);
  // Copies and moves are handles: a moved-from batch keeps its offsets.
  Offsets(const Offsets&) = default;
  Offsets& operator=(const Offsets&) = default;
  ~Offsets() = default;

  // Throws ShapeError for a negative length and for 2^31 tokens or more; so does uniform().
  static Offsets of_lengths(std::span<const int32_t> lengths);
  // `batch` sequences of `length` rows each, equivalent to a dense [batch, length, ...] tensor.
  static Offsets uniform(int64_t batch, int64_t length);

  int64_t sequences() const { return static_cast<int64_t>(offsets_->size()) - 1; }
  int64_t tokens() const { return offsets_->back(); }
  // Throw ShapeError for a sequence that does not exist; begin(sequences()) is tokens().
  int64_t begin(int64_t sequence) const { return at(sequence); }
  int64_t end(int64_t sequence) const {
    if (static_cast<uint64_t>(sequence) >= static_cast<uint64_t>(sequences())) [[unlikely]]
      throw_outside(sequence);
    return at(sequence + 1);
  }
  int64_t length(int64_t sequence) const { return end(sequence) - begin(sequence); }
  int64_t max_length() const { return max_length_; }
  const int32_t* data() const { return offsets_->data(); }
  const std::vector<int32_t>& values() const& { return *offsets_; }
  const std::vector<int32_t>& values() const&& = delete;  // the offsets could end before them

  friend bool operator==(const Offsets& a, const Offsets& b) { return *a.offsets_ == *b.offsets_; }

 private:
  int32_t at(int64_t index) const {
    if (static_cast<uint64_t>(index) >= offsets_->size()) [[unlikely]]
      throw_outside(index);
    return (*offsets_)[static_cast<size_t>(index)];
  }
  [[noreturn]] void throw_outside(int64_t index) const;

  std::shared_ptr<const std::vector<int32_t>> offsets_;
  int64_t max_length_ = 0;
};

// A tensor [tokens, ...] whose outermost axis is divided into sequences.
struct Ragged {
  Tensor values;
  Offsets offsets;

  // Concatenates sequences of token ids or other elements: values [tokens].
  static Ragged from(std::span<const std::span<const int32_t>> sequences) {
    return concatenated<int32_t>(sequences);
  }
  template <Element T>
  static Ragged from(const std::vector<std::vector<T>>& sequences) {
    return concatenated<T>(sequences);
  }

 private:
  template <Element T, class Sequences>
  static Ragged concatenated(const Sequences& sequences);
};

template <Element T, class Sequences>
Ragged Ragged::concatenated(const Sequences& sequences) {
  std::vector<T> values;
  std::vector<int32_t> lengths;
  for (const auto& sequence : sequences) {
    values.insert(values.end(), sequence.begin(), sequence.end());
    lengths.push_back(static_cast<int32_t>(sequence.size()));
  }
  Offsets offsets = Offsets::of_lengths(lengths);
  return {Tensor::from(values, {offsets.tokens()}), std::move(offsets)};
}

}  // namespace qkv
