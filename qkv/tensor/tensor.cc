#include "qkv/tensor/tensor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "qkv/tensor/device_memory.h"

namespace qkv {
namespace {

ByteRows byte_rows(const Tensor& x) {
  return {static_cast<std::byte*>(x.address()), static_cast<size_t>(x.row_stride()) * size_of(x.dtype())};
}

size_t row_bytes(const Tensor& x) { return static_cast<size_t>(x.cols()) * size_of(x.dtype()); }

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  const size_t bytes = static_cast<size_t>(shape.numel()) * size_of(dtype);
  return wrap(device == Device::cpu ? allocate(bytes) : device_memory(device).allocate(bytes), shape, dtype,
              device);
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  Tensor result = empty(shape, dtype, device);
  result.fill_zero();
  return result;
}

Tensor Tensor::full(const Shape& shape, float value, Device device) {
  Tensor result = empty(shape);
  std::ranges::fill(result.values(), value);
  return from_host(result, device);
}

Tensor Tensor::wrap(Storage storage, const Shape& shape, DType dtype, Device device) {
  Tensor result;
  result.storage_ = std::move(storage);
  result.shape_ = shape;
  result.dtype_ = dtype;
  result.device_ = device;
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
  Tensor result = empty_like(*this);
  result.copy_from(*this);
  return result;
}

void Tensor::copy_from(const Tensor& other) const {
  if (other.shape_ != shape_ || other.dtype_ != dtype_) {
    throw ShapeError(
        concat("copy: from ", name_of(other.dtype_), other.shape_, " to ", name_of(dtype_), shape_));
  }
  if (device_ != Device::cpu || other.device_ != Device::cpu) {
    const bool upload = other.device_ == Device::cpu, download = device_ == Device::cpu;
    if (!upload && !download && device_ != other.device_) {
      throw UsageError(concat("copy: tensor ", shape_, " from device ", name_of(other.device_), " to ",
                              name_of(device_), ": copy it to the host first"));
    }
    const CopyDirection direction = upload     ? CopyDirection::to_device
                                    : download ? CopyDirection::to_host
                                               : CopyDirection::on_device;
    device_memory(download ? other.device_ : device_)
        .copy(direction, byte_rows(other), byte_rows(*this), row_bytes(*this), static_cast<size_t>(rows()));
    return;
  }
  if (contiguous() && other.contiguous()) {
    if (numel() > 0) std::memcpy(storage_.get(), other.storage_.get(), bytes());
    return;
  }
  const ByteRows to = byte_rows(*this), from = byte_rows(other);
  for (size_t row = 0; row < static_cast<size_t>(rows()); ++row)
    std::memcpy(to.data + row * to.stride, from.data + row * from.stride, row_bytes(*this));
}

void Tensor::fill_zero() const {
  const ByteRows to = byte_rows(*this);
  if (device_ != Device::cpu) {
    device_memory(device_).fill_zero(to, row_bytes(*this), static_cast<size_t>(rows()));
    return;
  }
  if (contiguous()) {
    if (numel() > 0) std::memset(to.data, 0, bytes());
    return;
  }
  for (size_t row = 0; row < static_cast<size_t>(rows()); ++row)
    std::memset(to.data + row * to.stride, 0, row_bytes(*this));
}

Tensor to_host(const Tensor& x) {
  if (!x.defined() || x.device() == Device::cpu) return x;
  Tensor result = Tensor::empty(x.shape(), x.dtype());
  result.copy_from(x);
  return result;
}

Tensor from_host(const Tensor& x, Device device) {
  if (!x.defined() || x.device() == device) return x;
  if (x.device() != Device::cpu) {
    throw UsageError(concat("from_host: expected tensor ", x.shape(), " on the host, found it on device ",
                            name_of(x.device())));
  }
  Tensor result = Tensor::empty(x.shape(), x.dtype(), device);
  result.copy_from(x);
  return result;
}

void Tensor::throw_dtype(DType wanted) const {
  throw ShapeError(concat("tensor ", shape_, ": expected ", name_of(wanted), ", found ", name_of(dtype_)));
}

void Tensor::throw_not_on_host(const char* what) const {
  throw UsageError(concat(what, ": tensor ", shape_, " lies on device ", name_of(device_),
                          ": expected one on the host (see to_host)"));
}

void Tensor::require_contiguous(const char* what) const {
  if (!contiguous()) {
    throw ShapeError(
        concat(what, ": needs a contiguous tensor, found ", shape_, " with row stride ", row_stride_));
  }
}

}  // namespace qkv
