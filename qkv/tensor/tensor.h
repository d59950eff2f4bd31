#pragma once
// Tensor: a multi-dimensional array. A copy is a handle: the elements are shared.
//
// Through a const Tensor the elements can only be read, and its views are const too. A copy of a const Tensor
// can be written, as with std::shared_ptr: const keeps a function that takes `const Tensor&` from writing by
// mistake, and clone() copies the elements.
//
// Lifetime: a tensor keeps its storage alive, and so do its copies and views, in any order of destruction; a
// mapped file stays mapped as long as a tensor of it exists. Pointers and spans of elements do not: they are
// valid as long as one of these tensors exists.

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/tensor/device.h"
#include "qkv/tensor/device_address.h"
#include "qkv/tensor/dtype.h"
#include "qkv/tensor/shape.h"
#include "qkv/tensor/storage.h"

namespace qkv {

struct ByteRows;
struct ConstByteRows;

// Row-major. The only stride not implied by the shape is the row stride (a row runs along the innermost
// axis), so that columns of a matrix are a view too: see columns().
class Tensor {
 public:
  Tensor() = default;  // empty: defined() is false
  Tensor(const Tensor&) = default;
  Tensor& operator=(const Tensor&) = default;
  // A moved-from tensor is empty.
  Tensor(Tensor&& other) noexcept { swap(other); }
  Tensor& operator=(Tensor&& other) noexcept {
    Tensor(std::move(other)).swap(*this);
    return *this;
  }
  ~Tensor() = default;

  // Uninitialised.
  static Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu);
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu);
  static Tensor full(const Shape& shape, float value, Device device = Device::cpu);
  // Copies the values to a host tensor. Throws ShapeError unless values.size() equals the shape's number of
  // elements.
  template <Element T>
  static Tensor from(std::span<const T> values, const Shape& shape);
  template <Element T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }
  // A tensor over memory that `storage` keeps alive; `storage` points to the first element.
  static Tensor wrap(Storage storage, const Shape& shape, DType dtype, Device device = Device::cpu);
  // The same elements, read-only in this handle, its copies and its views: functions that could write them
  // throw UsageError naming `origin`, such as a mapped file. clone() is writable.
  Tensor as_read_only(std::string origin) const;
  bool read_only() const { return origin_ != nullptr; }

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int axis) const { return shape_[axis]; }
  int64_t numel() const { return defined() ? shape_.numel() : 0; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }

  // The tensor as a matrix of rows along the innermost axis. A scalar is one row of one column.
  int64_t rows() const { return rank() == 0 ? 1 : cols() == 0 ? 0 : numel() / cols(); }
  int64_t cols() const { return rank() == 0 ? 1 : shape_[-1]; }
  int64_t row_stride() const { return row_stride_; }  // in elements
  bool contiguous() const { return row_stride_ == cols() || rows() <= 1; }
  size_t bytes() const { return bytes_of(dtype_, numel()); }

  // The elements on the host. Throws ShapeError if T does not match the dtype, and UsageError if the tensor
  // is on another device (copy it with to_host()).
  template <class T = float>
  const T* data() const {
    require_host("data");
    return elements<const T>();
  }
  // The functions that give write access throw UsageError for a read-only tensor.
  template <class T = float>
  T* data() {
    require_host("data");
    require_writable();
    return elements<T>();
  }
  // The bytes of a contiguous tensor on the host, for any dtype.
  std::span<const std::byte> as_bytes() const {
    require_host("as_bytes");
    require_contiguous("as_bytes");
    return {storage_.get(), bytes()};
  }
  // The elements on the tensor's device; T void: for any dtype. Throws ShapeError if T does not match the
  // dtype.
  template <class T = float>
  DeviceAddress<const T> device_data() const {
    return DeviceAddress<const T>(elements<const T>());
  }
  template <class T = float>
  DeviceAddress<T> device_data() {
    require_writable();
    return DeviceAddress<T>(elements<T>());
  }
  // Whether both are views of one memory.
  bool shares_memory(const Tensor& other) const {
    return !storage_.owner_before(other.storage_) && !other.storage_.owner_before(storage_);
  }
  // The elements of a contiguous tensor on the host. Those of a temporary tensor are copied, as their memory
  // may end with it.
  template <class T = float>
  std::span<const T> values() const& {
    require_contiguous("values");
    return {data<T>(), static_cast<size_t>(numel())};
  }
  template <class T = float>
  std::span<T> values() & {
    require_contiguous("values");
    return {data<T>(), static_cast<size_t>(numel())};
  }
  // Not inline: GCC 12 warns of the vector's destructor.
  template <class T = float>
  [[gnu::noinline]] const std::vector<T> values() const&& {  // NOLINT(readability-const-return-type): a copy
    const std::span<const T> own = values<T>();
    return {own.begin(), own.end()};
  }
  // The only element of a one-element tensor on the host.
  float item() const;
  // The element at these indices, one per axis; negative ones count from the end: x.at(0, -1), or
  // ids.at<int32_t>(3). Throws ShapeError outside the shape, and if T does not match the dtype.
  template <Element T = float, std::integral... Index>
  T at(Index... indices) const {
    return data<T>()[element({static_cast<int64_t>(indices)...})];
  }
  template <Element T = float, std::integral... Index>
  T& at(Index... indices) {
    return data<T>()[element({static_cast<int64_t>(indices)...})];
  }

  // Views: they share this tensor's memory. All throw ShapeError for ranges outside the shape.
  // reshape: contiguous tensors only, and the same number of elements.
  Tensor reshape(const Shape& shape) { return reshaped(shape); }
  const Tensor reshape(const Shape& shape) const { return reshaped(shape); }
  // Elements begin to begin + count along the outermost axis.
  Tensor slice_rows(int64_t begin, int64_t count) { return row_slice(begin, count); }
  const Tensor slice_rows(int64_t begin, int64_t count) const { return row_slice(begin, count); }
  // Elements begin to begin + count along the innermost axis.
  Tensor columns(int64_t begin, int64_t count) { return column_slice(begin, count); }
  const Tensor columns(int64_t begin, int64_t count) const { return column_slice(begin, count); }

  // Elements begin to begin + count along any axis, as a contiguous copy. Negative axes count from the end.
  Tensor slice(int axis, int64_t begin, int64_t count) const;

  Tensor clone() const;  // a contiguous copy on the same device
  // Requires the same shape and dtype, and the same device or the host on either side. The two may overlap.
  void copy_from(const Tensor& other);
  void fill_zero();

 private:
  template <class T>
  T* elements() const {
    if constexpr (std::is_void_v<T>) {
      return storage_.get();
    } else {
      require_dtype(dtype_of<std::remove_const_t<T>>);
      return reinterpret_cast<T*>(storage_.get());
    }
  }
  ByteRows byte_rows();
  ConstByteRows byte_rows() const;
  void swap(Tensor& other) noexcept {
    storage_.swap(other.storage_);
    origin_.swap(other.origin_);
    std::swap(shape_, other.shape_);
    std::swap(row_stride_, other.row_stride_);
    std::swap(dtype_, other.dtype_);
    std::swap(device_, other.device_);
  }
  Tensor reshaped(const Shape& shape) const;
  Tensor row_slice(int64_t begin, int64_t count) const;
  Tensor column_slice(int64_t begin, int64_t count) const;
  void require_dtype(DType wanted) const {
    if (dtype_ != wanted) [[unlikely]]
      throw_dtype(wanted);
  }
  void require_host(const char* what) const {
    if (device_ != Device::cpu) [[unlikely]]
      throw_not_on_host(what);
  }
  void require_writable() const {
    if (origin_) [[unlikely]]
      throw_read_only();
  }
  void require_blocks(const char* what, int64_t columns) const;
  [[noreturn]] void throw_dtype(DType wanted) const;
  [[noreturn]] void throw_read_only() const;
  [[noreturn]] void throw_not_on_host(const char* what) const;
  void require_contiguous(const char* what) const;
  int64_t element(std::initializer_list<int64_t> indices) const;  // offset in elements

  Storage storage_;
  std::shared_ptr<const std::string> origin_;  // of a read-only tensor
  Shape shape_;
  int64_t row_stride_ = 0;
  DType dtype_ = DType::f32;
  Device device_ = Device::cpu;
};

// An uninitialised tensor of the same shape, dtype and device.
inline Tensor empty_like(const Tensor& x) { return Tensor::empty(x.shape(), x.dtype(), x.device()); }

// The tensor on the host: itself if it is there already, otherwise a contiguous copy.
Tensor to_host(const Tensor& x);
// The tensor on `device`: itself if it is there already, otherwise a contiguous copy. Throws UsageError for a
// tensor on a third device.
Tensor from_host(const Tensor& x, Device device);

// Formats as "f32 [2, 3]: 1, 2, 3, 4, 5, 6"; of large tensors, the first and last four elements.
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
