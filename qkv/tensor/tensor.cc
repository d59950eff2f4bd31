#include "qkv/tensor/tensor.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "qkv/tensor/device_memory.h"
#include "qkv/tensor/half.h"

namespace qkv {
namespace {

size_t row_bytes(const Tensor& x) { return bytes_of(x.dtype(), x.cols()); }

}  // namespace

ByteRows Tensor::byte_rows() {
  require_writable();
  return {storage_.get(), bytes_of(dtype_, row_stride_)};
}

ConstByteRows Tensor::byte_rows() const { return {storage_.get(), bytes_of(dtype_, row_stride_)}; }

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  const size_t bytes = bytes_of(dtype, shape.numel());
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
  if (storage == nullptr)
    throw UsageError(concat("Tensor::wrap: expected memory of ", shape, ", found none"));
  Tensor result;
  result.storage_ = std::move(storage);
  result.shape_ = shape;
  result.dtype_ = dtype;
  result.require_blocks("Tensor::wrap", result.cols());
  result.device_ = device;
  result.row_stride_ = result.cols();
  return result;
}

Tensor Tensor::as_read_only(std::string origin) const {
  Tensor result = *this;
  result.origin_ = std::make_shared<const std::string>(std::move(origin));
  return result;
}

float Tensor::item() const {
  if (numel() != 1) throw ShapeError(concat("item: expected one element, found shape ", shape_));
  return *data<float>();
}

Tensor Tensor::reshaped(const Shape& shape) const {
  require_contiguous("reshape");
  if (!defined() || shape.numel() != numel()) {
    throw ShapeError(
        concat("reshape: from ", defined() ? "" : "an undefined tensor ", shape_, " to ", shape));
  }
  Tensor result = *this;
  result.shape_ = shape;
  result.require_blocks("reshape", result.cols());
  result.row_stride_ = result.cols();
  return result;
}

Tensor Tensor::row_slice(int64_t begin, int64_t count) const {
  if (rank() == 0 || begin < 0 || count < 0 || begin > shape_[0] || count > shape_[0] - begin) {
    throw ShapeError(concat("slice_rows: ", count, " rows from ", begin, " of shape ", shape_));
  }
  if (rank() == 1) {
    Tensor result = column_slice(begin, count);
    result.row_stride_ = count;
    return result;
  }
  std::array<int64_t, Shape::kMaxRank> extents{};
  std::ranges::copy(shape_.extents(), extents.begin());
  extents[0] = count;
  int64_t stride = row_stride_;
  for (int axis = 1; axis + 1 < rank(); ++axis) stride *= shape_[axis];
  Tensor result = *this;
  result.shape_ = Shape(std::span(extents.data(), static_cast<size_t>(rank())));
  result.storage_ = Storage(storage_, storage_.get() + bytes_of(dtype_, begin * stride));
  return result;
}

Tensor Tensor::column_slice(int64_t begin, int64_t count) const {
  if (rank() == 0 || begin < 0 || count < 0 || begin > cols() || count > cols() - begin) {
    throw ShapeError(concat("columns: ", count, " columns from ", begin, " of shape ", shape_));
  }
  require_blocks("columns", begin);
  require_blocks("columns", count);
  std::array<int64_t, Shape::kMaxRank> extents{};
  std::ranges::copy(shape_.extents(), extents.begin());
  extents[static_cast<size_t>(rank() - 1)] = count;
  Tensor result = *this;
  result.shape_ = Shape(std::span(extents.data(), static_cast<size_t>(rank())));
  result.storage_ = Storage(storage_, storage_.get() + bytes_of(dtype_, begin));
  return result;
}

Tensor Tensor::slice(int axis, int64_t begin, int64_t count) const {
  const int from_front = axis < 0 ? axis + rank() : axis;
  const int64_t extent = shape_[axis];  // throws for an invalid axis
  if (begin < 0 || count < 0 || begin > extent || count > extent - begin) {
    throw ShapeError(
        concat("slice: ", count, " elements from ", begin, " of axis ", axis, " of shape ", shape_));
  }
  if (from_front == rank() - 1) return columns(begin, count).clone();
  std::array<int64_t, Shape::kMaxRank> extents{};
  std::ranges::copy(shape_.extents(), extents.begin());
  extents[static_cast<size_t>(from_front)] = count;
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < rank(); ++i) {
    if (i < from_front) outer *= shape_[i];
    if (i > from_front) inner *= shape_[i];
  }
  const Tensor whole = contiguous() ? *this : clone();
  return whole.reshape({outer, extent * inner})
      .columns(begin * inner, count * inner)
      .clone()
      .reshape(Shape(std::span(extents.data(), static_cast<size_t>(rank()))));
}

Tensor Tensor::clone() const {
  if (!defined()) return {};
  Tensor result = empty_like(*this);
  result.copy_from(*this);
  return result;
}

void Tensor::copy_from(const Tensor& other) {
  if (other.shape_ != shape_ || other.dtype_ != dtype_ || other.defined() != defined()) {
    const auto named = [](const Tensor& x) {
      return x.defined() ? concat(name_of(x.dtype_), " ", x.shape_) : std::string("an undefined tensor");
    };
    throw ShapeError(concat("copy_from: expected ", named(*this), ", found ", named(other)));
  }
  require_writable();
  if (device_ != Device::cpu || other.device_ != Device::cpu) {
    const bool upload = other.device_ == Device::cpu, download = device_ == Device::cpu;
    if (!upload && !download && device_ != other.device_) {
      throw UsageError(concat("copy: tensor ", shape_, " from device ", name_of(other.device_), " to ",
                              name_of(device_), ": copy it to the host first"));
    }
    const CopyDirection direction = upload     ? CopyDirection::to_device
                                    : download ? CopyDirection::to_host
                                               : CopyDirection::on_device;
    if (download) count_device_wait();
    device_memory(download ? other.device_ : device_)
        .copy(direction, other.byte_rows(), byte_rows(), row_bytes(*this), static_cast<size_t>(rows()));
    return;
  }
  if (contiguous() && other.contiguous()) {
    if (numel() > 0) std::memmove(storage_.get(), other.storage_.get(), bytes());
    return;
  }
  const ByteRows to = byte_rows();
  const ConstByteRows from = other.byte_rows();
  const auto end = [&](const std::byte* begin, size_t stride) {
    return begin + static_cast<size_t>(rows()) * stride;
  };
  const std::less<const std::byte*> before;
  if (to.data == from.data && to.stride == from.stride) return;
  if (before(to.data, end(from.data, from.stride)) && before(from.data, end(to.data, to.stride)))
    return copy_from(other.clone());  // the rows may overlap
  for (size_t row = 0; row < static_cast<size_t>(rows()); ++row)
    std::memcpy(to.data + row * to.stride, from.data + row * from.stride, row_bytes(*this));
}

void Tensor::fill_zero() {
  const ByteRows to = byte_rows();
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

int64_t Tensor::element(std::initializer_list<int64_t> indices) const {
  const auto refuse = [&] {
    std::string found;
    for (const int64_t index : indices) found += concat(found.empty() ? "" : ", ", index);
    throw ShapeError(
        concat("at(", found, "): no element of ", defined() ? "shape " : "an undefined tensor ", shape_));
  };
  if (!defined() || static_cast<int>(indices.size()) != rank()) refuse();
  int64_t row = 0, column = 0;
  int axis = 0;
  for (int64_t index : indices) {
    const int64_t extent = shape_[axis];
    if (index < 0) index += extent;
    if (index < 0 || index >= extent) refuse();
    if (++axis == rank()) {
      column = index;
    } else {
      row = row * extent + index;
    }
  }
  return row * row_stride_ + column;
}

namespace {

template <Element T>
void print_elements(std::ostream& out, const Tensor& tensor) {
  constexpr int64_t kShown = 4;  // elements at each end
  const int64_t count = tensor.numel();
  for (int64_t i = 0; i < count; ++i) {
    if (i == kShown && count > 2 * kShown) {
      out << ", ...";
      i = count - kShown;
    }
    out << (i == 0 ? ": " : ", ");
    const T value = tensor.data<T>()[i / tensor.cols() * tensor.row_stride() + i % tensor.cols()];
    if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) {
      out << widened(value);
    } else {
      out << +value;  // unary + prints bytes as numbers
    }
  }
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& x) {
  const Tensor tensor = to_host(x);
  if (!tensor.defined()) return out << "an undefined tensor";
  out << name_of(tensor.dtype()) << ' ' << tensor.shape();
  switch (tensor.dtype()) {
    case DType::f32:
      print_elements<float>(out, tensor);
      break;
    case DType::i32:
      print_elements<int32_t>(out, tensor);
      break;
    case DType::u8:
      print_elements<uint8_t>(out, tensor);
      break;
    case DType::bf16:
      print_elements<BFloat16>(out, tensor);
      break;
    case DType::i8:
      print_elements<int8_t>(out, tensor);
      break;
    case DType::f16:
      print_elements<Float16>(out, tensor);
      break;
    case DType::i64:
      print_elements<int64_t>(out, tensor);
      break;
    default:
      break;  // blocks
  }
  return out;
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

void Tensor::require_blocks(const char* what, int64_t columns) const {
  const int64_t block = layout_of(dtype_).block;
  if (columns % block == 0) return;
  throw ShapeError(concat(what, ": expected a multiple of ", block, " columns, as the dtype is ",
                          name_of(dtype_), ", found ", columns));
}

void Tensor::throw_dtype(DType wanted) const {
  throw ShapeError(concat("tensor ", shape_, ": expected ", name_of(wanted), ", found ", name_of(dtype_)));
}

void Tensor::throw_read_only() const {
  throw UsageError(concat("tensor ", shape_, ": expected a writable one, found one that is read-only: ",
                          *origin_, "; clone() makes a writable copy"));
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
