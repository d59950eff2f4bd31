// Tensors, and arrays that share their memory.

#include <nanobind/ndarray.h>

#include <array>

#include "python/bind/common.h"

namespace qkv::python {
namespace {

nb::dlpack::dtype dlpack_type(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto type = [&](Code code) {
    return nb::dlpack::dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(8 * size_of(dtype)), 1};
  };
  switch (dtype) {
    case DType::f32:
    case DType::f16:
      return type(Code::Float);
    case DType::bf16:
      return type(Code::Bfloat);
    case DType::u8:
      return type(Code::UInt);
    case DType::i32:
    case DType::i8:
    case DType::i64:
      return type(Code::Int);
  }
  return {};
}

// `tensor` is const: it may be read-only.
const void* address_of(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f32:
      return tensor.data<float>();
    case DType::i32:
      return tensor.data<int32_t>();
    case DType::u8:
      return tensor.data<uint8_t>();
    case DType::bf16:
      return tensor.data<BFloat16>();
    case DType::i8:
      return tensor.data<int8_t>();
    case DType::f16:
      return tensor.data<Float16>();
    case DType::i64:
      return tensor.data<int64_t>();
  }
  return nullptr;
}

// An array of any framework over the tensor's memory.
template <class... Framework>
nb::object array_over(const Tensor& tensor) {
  std::array<size_t, Shape::kMaxRank> shape{};
  std::array<int64_t, Shape::kMaxRank> strides{};
  int64_t stride = 1;
  for (int axis = tensor.rank() - 1; axis >= 0; --axis) {
    const auto at = static_cast<size_t>(axis);
    shape[at] = static_cast<size_t>(tensor.dim(axis));
    strides[at] = stride;
    stride = axis == tensor.rank() - 1 ? tensor.row_stride() : stride * tensor.dim(axis);
  }
  auto kept = std::make_unique<Tensor>(tensor);
  const nb::capsule owner(kept.get(), [](void* pointer) noexcept { delete static_cast<Tensor*>(pointer); });
  const Tensor& alive = *kept.release();
  const void* data = address_of(alive);
  const auto rank = static_cast<size_t>(tensor.rank());
  if (tensor.read_only()) {
    return nb::cast(nb::ndarray<Framework..., nb::ro>(data, rank, shape.data(), owner, strides.data(),
                                                      dlpack_type(tensor.dtype())));
  }
  return nb::cast(nb::ndarray<Framework...>(const_cast<void*>(data), rank, shape.data(), owner,
                                            strides.data(), dlpack_type(tensor.dtype())));
}

void require_host_tensor(const Tensor& tensor) {
  if (tensor.device() != Device::cpu)
    throw UsageError(
        concat("numpy: expected a tensor on the device cpu, found one on ", name_of(tensor.device())));
}

}  // namespace

nb::object to_numpy(const Tensor& tensor) {
  require_host_tensor(tensor);
  if (tensor.dtype() == DType::bf16) throw UsageError("numpy: expected a dtype that numpy has, found bf16");
  return array_over<nb::numpy>(tensor);
}

void bind_tensors(nb::module_& /*module*/) {}

}  // namespace qkv::python
