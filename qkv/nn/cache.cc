#include "qkv/nn/cache.h"

#include <algorithm>
#include <iterator>

namespace qkv::nn {
namespace {

constexpr int64_t kStepsOfBlock = 16;

void require_sentences(size_t sentences, const Offsets& hypothesis_offsets) {
  if (static_cast<int64_t>(sentences) != hypothesis_offsets.sequences()) {
    throw ShapeError(
        concat("cache of ", sentences, " sentences: found rows of ", hypothesis_offsets.sequences()));
  }
}

// Drops the elements of the sentences that have no rows.
template <class T>
void keep_those_with_rows(std::vector<T>& sentences, const Offsets& hypothesis_offsets) {
  size_t kept = 0;
  for (size_t s = 0; s < sentences.size(); ++s) {
    if (hypothesis_offsets.length(static_cast<int64_t>(s)) == 0) continue;
    if (kept < s) sentences[kept] = std::move(sentences[s]);
    ++kept;
  }
  sentences.erase(sentences.begin() + static_cast<std::ptrdiff_t>(kept), sentences.end());
}

template <class T>
void move_behind(std::vector<T>& all, std::vector<T>& new_requests) {
  all.insert(all.end(), std::make_move_iterator(new_requests.begin()),
             std::make_move_iterator(new_requests.end()));
}

}  // namespace

KeyValueCache::KeyValueCache(int64_t sentences)
    : sentences_(static_cast<size_t>(sentences)), entries_(static_cast<size_t>(sentences)) {}

Tensor KeyValueCache::lengths() const {
  Tensor lengths = Tensor::empty({rows()}, DType::i32);
  for (int64_t row = 0; row < rows(); ++row) lengths.data<int32_t>()[row] = static_cast<int32_t>(length(row));
  return lengths;
}

void KeyValueCache::append(const Tensor& keys, const Tensor& values, const Offsets& offsets) {
  const int64_t width = keys.cols() + values.cols(), positions = offsets.tokens();
  if (offsets.sequences() != rows() || keys.rows() != positions || values.rows() != positions ||
      (width_ != 0 && width_ != width)) {
    throw ShapeError(concat("cache of ", rows(), " rows: cannot append keys ", keys.shape(), " and values ",
                            values.shape(), " to ", offsets.sequences(), " rows"));
  }
  width_ = width;
  int64_t row = 0;
  for (Sentence& sentence : sentences_) {
    const int64_t end = row + sentence.rows, own = offsets.begin(end) - offsets.begin(row);
    if (own == 0) {
      row = end;
      continue;
    }
    if (sentence.free < own) {
      sentence.free = std::max(own, kStepsOfBlock * sentence.rows);
      sentence.blocks.push_back(Tensor::empty({sentence.free, width}));
    }
    const Tensor& block = sentence.blocks.back();
    float* to = block.data() + (block.rows() - sentence.free) * width;
    for (; row < end; ++row) {
      for (int64_t i = offsets.begin(row); i < offsets.end(row); ++i, to += width) {
        std::copy_n(keys.data() + i * keys.row_stride(), keys.cols(), to);
        std::copy_n(values.data() + i * values.row_stride(), values.cols(), to + keys.cols());
        entries_[static_cast<size_t>(row)].push_back(to);
      }
    }
    sentence.free -= own;
  }
}

void KeyValueCache::join(KeyValueCache new_requests) {
  if (width_ != 0 && new_requests.width_ != 0 && width_ != new_requests.width_) {
    throw ShapeError(
        concat("cache of width ", width_, ": cannot take in one of width ", new_requests.width_));
  }
  width_ = std::max(width_, new_requests.width_);
  move_behind(sentences_, new_requests.sentences_);
  move_behind(entries_, new_requests.entries_);
}

void KeyValueCache::reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets) {
  require_sentences(sentences_.size(), hypothesis_offsets);
  for (const int32_t parent : parents) {
    if (parent < 0 || parent >= rows())
      throw ShapeError(concat("cache of ", rows(), " rows: no row ", parent));
  }
  std::vector<std::vector<const float*>> reordered(parents.size());
  std::vector<int32_t> children(entries_.size());
  for (const int32_t parent : parents) ++children[static_cast<size_t>(parent)];
  for (size_t row = 0; row < parents.size(); ++row) {
    const auto parent = static_cast<size_t>(parents[row]);
    // The last child takes its parent's list.
    reordered[row] = --children[parent] == 0 ? std::move(entries_[parent]) : entries_[parent];
  }
  entries_ = std::move(reordered);
  for (size_t s = 0; s < sentences_.size(); ++s)
    sentences_[s].rows = hypothesis_offsets.length(static_cast<int64_t>(s));
  keep_those_with_rows(sentences_, hypothesis_offsets);
}

MemoryKeyValues::MemoryKeyValues(const Tensor& keys_and_values, const Offsets& offsets) {
  for (int64_t s = 0; s < offsets.sequences(); ++s) {
    const Tensor own = keys_and_values.slice_rows(offsets.begin(s), offsets.length(s));
    // A copy for each of several, so that a sentence's memory goes with it, and not with the last of its
    // group.
    Sentence& sentence = sentences_.emplace_back(Sentence{offsets.sequences() > 1 ? own.clone() : own});
    for (int64_t token = 0; token < own.rows(); ++token)
      sentence.entries.push_back(sentence.keys_and_values.data() + token * own.cols());
  }
}

void MemoryKeyValues::join(MemoryKeyValues new_requests) { move_behind(sentences_, new_requests.sentences_); }

void MemoryKeyValues::keep(const Offsets& hypothesis_offsets) {
  require_sentences(sentences_.size(), hypothesis_offsets);
  keep_those_with_rows(sentences_, hypothesis_offsets);
}

}  // namespace qkv::nn
