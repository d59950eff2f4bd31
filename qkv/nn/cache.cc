#include "qkv/nn/cache.h"

#include <algorithm>
#include <cstring>

#include "qkv/base/parallel.h"
#include "qkv/ops/profile.h"

namespace qkv::nn {
namespace {

void copy_floats(const float* from, float* to, int64_t count) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

// `from` [rows * from_capacity, width], row i's positions at i * from_capacity -> `rows` rows, chosen by
// `row_of`, with another capacity; `length` positions each. The memory is that of `most_rows` rows: blocks of
// one size go round between the layers and steps of a search, although its sentences end one by one.
template <class RowOf>
Tensor rearranged(const Tensor& from, int64_t from_capacity, int64_t rows, int64_t most_rows,
                  int64_t capacity, int64_t length, const RowOf& row_of) {
  const int64_t width = from.cols();
  Tensor to = Tensor::empty({most_rows * capacity, width}).slice_rows(0, rows * capacity);
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, length * width));
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      copy_floats(from.data() + row_of(row) * from_capacity * width, to.data() + row * capacity * width,
                  length * width);
    }
  });
  return to;
}

}  // namespace

void KeyValueCache::append(const Tensor& keys, const Tensor& values) {
  const ProfileScope profile("cache");
  if (capacity_ == 0) {
    rows_ = most_rows_ = keys.rows();
    capacity_ = 16;
    keys_ = Tensor::empty({rows_ * capacity_, keys.cols()});
    values_ = Tensor::empty({rows_ * capacity_, values.cols()});
  }
  if (keys.rows() != rows_ || values.rows() != rows_) {
    throw ShapeError(concat("cache of ", rows_, " rows: cannot append keys ", keys.shape(), " and values ",
                            values.shape()));
  }
  if (length_ == capacity_) {
    const auto same = [](int64_t row) { return row; };
    keys_ = rearranged(keys_, capacity_, rows_, most_rows_, 2 * capacity_, length_, same);
    values_ = rearranged(values_, capacity_, rows_, most_rows_, 2 * capacity_, length_, same);
    capacity_ *= 2;
  }
  for (int64_t row = 0; row < rows_; ++row) {
    const int64_t place = row * capacity_ + length_;
    copy_floats(keys.data() + row * keys.row_stride(), keys_.data() + place * keys_.cols(), keys_.cols());
    copy_floats(values.data() + row * values.row_stride(), values_.data() + place * values_.cols(),
                values_.cols());
  }
  ++length_;
}

void KeyValueCache::reorder(std::span<const int32_t> parents) {
  const ProfileScope profile("cache");
  const auto rows = static_cast<int64_t>(parents.size());
  bool unchanged = rows == rows_;
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t parent = parents[static_cast<size_t>(row)];
    if (parent < 0 || parent >= rows_) throw ShapeError(concat("cache of ", rows_, " rows: no row ", parent));
    unchanged = unchanged && parent == row;
  }
  if (unchanged) return;
  most_rows_ = std::max(most_rows_, rows);
  if (length_ > 0) {
    const auto parent_of = [&](int64_t row) { return int64_t{parents[static_cast<size_t>(row)]}; };
    keys_ = rearranged(keys_, capacity_, rows, most_rows_, capacity_, length_, parent_of);
    values_ = rearranged(values_, capacity_, rows, most_rows_, capacity_, length_, parent_of);
  } else {
    keys_ = values_ = Tensor();
    capacity_ = 0;
  }
  rows_ = rows;
}

}  // namespace qkv::nn
