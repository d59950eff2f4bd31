#include "qkv/nn/cache.h"

#include <algorithm>

namespace qkv::nn {
namespace {

constexpr int64_t kStepsOfBlock = 16;

}  // namespace

Tensor KeyValueCache::lengths() const {
  Tensor lengths = Tensor::empty({rows()}, DType::i32);
  for (int64_t row = 0; row < rows(); ++row) {
    lengths.data<int32_t>()[row] = static_cast<int32_t>(length(row));
  }
  return lengths;
}

void KeyValueCache::append(const Tensor& keys, const Tensor& values, const Offsets& offsets) {
  const int64_t width = keys.cols() + values.cols(), positions = offsets.tokens();
  if (offsets.sequences() != rows() || keys.rows() != positions || values.rows() != positions ||
      (!blocks_.empty() && blocks_.back().cols() != width)) {
    throw ShapeError(concat("cache of ", rows(), " rows: cannot append keys ", keys.shape(), " and values ",
                            values.shape(), " to ", offsets.sequences(), " rows"));
  }
  if (free_ < positions) {
    free_ = std::max(positions, kStepsOfBlock * rows());
    blocks_.push_back(Tensor::empty({free_, width}));
  }
  float* to = blocks_.back().data() + (blocks_.back().rows() - free_) * width;
  for (int64_t row = 0; row < rows(); ++row) {
    for (int64_t i = offsets.begin(row); i < offsets.end(row); ++i, to += width) {
      std::copy_n(keys.data() + i * keys.row_stride(), keys.cols(), to);
      std::copy_n(values.data() + i * values.row_stride(), values.cols(), to + keys.cols());
      entries_[static_cast<size_t>(row)].push_back(to);
    }
  }
  free_ -= positions;
}

void KeyValueCache::reorder(std::span<const int32_t> parents) {
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
}

}  // namespace qkv::nn
