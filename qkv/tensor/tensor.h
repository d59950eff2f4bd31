#pragma once
// Tensor: a block of numbers with a shape. A copy is a handle: the numbers are shared.

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/tensor/device.h"
#include "qkv/tensor/dtype.h"
#include "qkv/tensor/shape.h"
#include "qkv/tensor/storage.h"

namespace qkv {

// Elements lie row-major. The only stride that is not implied by the shape is the one from row to row (a row
// runs along the innermost axis), so that some columns of a matrix are a view too: see columns().
class Tensor {
 public:
  Tensor() = default;  // holds nothing: defined() is false

  // Uninitialised.
  static Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu);
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu);
  static Tensor full(const Shape& shape, float value, Device device = Device::cpu);
  // A copy of the values on the host. Throws ShapeError unless values.size() is the shape's number of
  // elements.
  template <Element T>
  static Tensor from(std::span<const T> values, const Shape& shape);
  template <Element T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }
  // A tensor over memory that `storage` keeps alive; `storage` points at the first element.
  static Tensor wrap(Storage storage, const Shape& shape, DType dtype, Device device = Device::cpu);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int axis) const { return shape_[axis]; }
  int64_t numel() const { return defined() ? shape_.numel() : 0; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }

  // The tensor as a matrix of its innermost rows. A scalar is one row of one column.
  int64_t rows() const { return rank() == 0 ? 1 : cols() == 0 ? 0 : numel() / cols(); }
  int64_t cols() const { return rank() == 0 ? 1 : shape_[-1]; }
  int64_t row_stride() const { return row_stride_; }  // in elements
  bool contiguous() const { return row_stride_ == cols() || rows() <= 1; }
  size_t bytes() const { return static_cast<size_t>(numel()) * size_of(dtype_); }

  // The elements on the host. Throws ShapeError when T is not what the tensor holds, and UsageError when it
  // lies on another device: to_host() copies it from there.
  template <class T = float>
  T* data() const {
    require_host("data");
    return device_data<T>();
  }
  // The elements on the tensor's device: for kernels, as nothing else can read them there. Throws ShapeError
  // when T is not what the tensor holds.
  template <class T = float>
  T* device_data() const {
    require_dtype(dtype_of<T>);
    return reinterpret_cast<T*>(storage_.get());
  }
  // The first element on the tensor's device, of any dtype.
  void* address() const { return storage_.get(); }
  // The elements of a contiguous tensor on the host.
  template <class T = float>
  std::span<T> values() const {
    require_contiguous("values");
    return {data<T>(), static_cast<size_t>(numel())};
  }
  // The one element of a tensor on the host that has one.
  float item() const;
  // The element at these indices, one for each axis; negative ones count from the back: x.at(0, -1), or
  // ids.at<int32_t>(3). Throws ShapeError outside the shape, and when T is not what the tensor holds.
  template <Element T = float, std::integral... Index>
  T at(Index... indices) const {
    return data<T>()[element({static_cast<int64_t>(indices)...})];
  }
  template <Element T = float, std::integral... Index>
  T& at(Index... indices) {
    return data<T>()[element({static_cast<int64_t>(indices)...})];
  }

  // Views: they share this tensor's memory.
  Tensor reshape(const Shape& shape) const;               // same number of elements; contiguous only
  Tensor slice_rows(int64_t begin, int64_t count) const;  // along the outermost axis
  Tensor columns(int64_t begin, int64_t count) const;     // along the innermost axis

  // Elements begin to begin + count along any axis, as a contiguous copy. Negative axes count from the back.
  Tensor slice(int axis, int64_t begin, int64_t count) const;

  Tensor clone() const;  // a contiguous copy on the same device
  // Same shape and dtype; from the same device, or from the host, or to it.
  void copy_from(const Tensor& other) const;
  void fill_zero() const;

 private:
  void require_dtype(DType wanted) const {
    if (dtype_ != wanted) [[unlikely]]
      throw_dtype(wanted);
  }
  void require_host(const char* what) const {
    if (device_ != Device::cpu) [[unlikely]]
      throw_not_on_host(what);
  }
  [[noreturn]] void throw_dtype(DType wanted) const;
  [[noreturn]] void throw_not_on_host(const char* what) const;
  void require_contiguous(const char* what) const;
  int64_t element(std::initializer_list<int64_t> indices) const;  // where it lies, in elements

  Storage storage_;
  Shape shape_;
  int64_t row_stride_ = 0;
  DType dtype_ = DType::f32;
  Device device_ = Device::cpu;
};

// An uninitialised tensor of the same shape, dtype and device.
inline Tensor empty_like(const Tensor& x) { return Tensor::empty(x.shape(), x.dtype(), x.device()); }

// The tensor on the host: itself where it lies there, else a contiguous copy.
Tensor to_host(const Tensor& x);
// The tensor on `device`: itself where it lies there, else a contiguous copy. Throws UsageError for a tensor
// of a third device.
Tensor from_host(const Tensor& x, Device device);

// As "f32 [2, 3]: 1, 2, 3, 4, 5, 6"; of many elements the first and the last four.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

template <Element T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape) {
  if (static_cast<int64_t>(values.size()) != shape.numel()) {
    throw ShapeError(
        concat("Tensor::from: shape ", shape, " holds ", shape.numel(), " elements, found ", values.size()));
  }
  Tensor result = empty(shape, dtype_of<T>);
  std::copy(values.begin(), values.end(), result.data<T>());
  return result;
}

}  // namespace qkv
