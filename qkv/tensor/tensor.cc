#include "qkv/tensor/tensor.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace qkv {

Tensor Tensor::empty(const Shape& shape, DType dtype) {
  return wrap(allocate(static_cast<size_t>(shape.numel()) * size_of(dtype)), shape, dtype);
}

Tensor Tensor::zeros(const Shape& shape, DType dtype) {
  Tensor result = empty(shape, dtype);
  result.fill_zero();
  return result;
}

Tensor Tensor::full(const Shape& shape, float value) {
  Tensor result = empty(shape);
  std::ranges::fill(result.values(), value);
  return result;
}

Tensor Tensor::wrap(Storage storage, const Shape& shape, DType dtype) {
  Tensor result;
  result.storage_ = std::move(storage);
  result.shape_ = shape;
  result.dtype_ = dtype;
  result.row_stride_ = result.cols();
  return result;
}

float Tensor::item() const {
  if (numel() != 1) throw ShapeError(concat("item: expected one element, found shape ", shape_));
  return *data<float>();
}

Tensor Tensor::reshape(const Shape& shape) const {
  require_contiguous("reshape");
  if (shape.numel() != numel()) throw ShapeError(concat("reshape: from ", shape_, " to ", shape));
  Tensor result = *this;
  result.shape_ = shape;
  result.row_stride_ = result.cols();
  return result;
}

Tensor Tensor::slice_rows(int64_t begin, int64_t count) const {
  if (rank() == 0 || begin < 0 || count < 0 || begin + count > shape_[0]) {
    throw ShapeError(concat("slice_rows: rows ", begin, " to ", begin + count, " of shape ", shape_));
  }
  std::array<int64_t, Shape::kMaxRank> extents{};
  std::ranges::copy(shape_.extents(), extents.begin());
  extents[0] = count;
  int64_t stride = row_stride_;
  for (int axis = 1; axis + 1 < rank(); ++axis) stride *= shape_[axis];
  if (rank() == 1) stride = 1;
  Tensor result = *this;
  result.shape_ = Shape(std::span(extents.data(), static_cast<size_t>(rank())));
  if (rank() == 1) result.row_stride_ = count;
  result.storage_ = Storage(storage_, storage_.get() + static_cast<size_t>(begin * stride) * size_of(dtype_));
  return result;
}

Tensor Tensor::columns(int64_t begin, int64_t count) const {
  if (rank() == 0 || begin < 0 || count < 0 || begin + count > cols()) {
    throw ShapeError(concat("columns: columns ", begin, " to ", begin + count, " of shape ", shape_));
  }
  std::array<int64_t, Shape::kMaxRank> extents{};
  std::ranges::copy(shape_.extents(), extents.begin());
  extents[static_cast<size_t>(rank() - 1)] = count;
  Tensor result = *this;
  result.shape_ = Shape(std::span(extents.data(), static_cast<size_t>(rank())));
  result.storage_ = Storage(storage_, storage_.get() + static_cast<size_t>(begin) * size_of(dtype_));
  return result;
}

Tensor Tensor::clone() const {
  if (!defined()) return {};
  Tensor result = empty(shape_, dtype_);
  result.copy_from(*this);
  return result;
}

void Tensor::copy_from(const Tensor& other) const {
  if (other.shape_ != shape_ || other.dtype_ != dtype_) {
    throw ShapeError(
        concat("copy: from ", name_of(other.dtype_), other.shape_, " to ", name_of(dtype_), shape_));
  }
  const size_t size = size_of(dtype_);
  const size_t row_bytes = static_cast<size_t>(cols()) * size;
  if (contiguous() && other.contiguous()) {
    if (numel() > 0) std::memcpy(storage_.get(), other.storage_.get(), bytes());
    return;
  }
  for (int64_t row = 0; row < rows(); ++row) {
    std::memcpy(storage_.get() + static_cast<size_t>(row * row_stride_) * size,
                other.storage_.get() + static_cast<size_t>(row * other.row_stride_) * size, row_bytes);
  }
}

void Tensor::fill_zero() const {
  const size_t size = size_of(dtype_);
  if (contiguous()) {
    if (numel() > 0) std::memset(storage_.get(), 0, bytes());
    return;
  }
  for (int64_t row = 0; row < rows(); ++row) {
    std::memset(storage_.get() + static_cast<size_t>(row * row_stride_) * size, 0,
                static_cast<size_t>(cols()) * size);
  }
}

void Tensor::require_dtype(DType wanted) const {
  if (dtype_ != wanted) {
    throw ShapeError(concat("tensor ", shape_, ": expected ", name_of(wanted), ", found ", name_of(dtype_)));
  }
}

void Tensor::require_contiguous(const char* what) const {
  if (!contiguous()) {
    throw ShapeError(
        concat(what, ": needs a contiguous tensor, found ", shape_, " with row stride ", row_stride_));
  }
}

}  // namespace qkv
