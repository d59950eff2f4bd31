// Tensors, and arrays that share their memory.

#include <nanobind/ndarray.h>

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "python/bind/common.h"
#include "qkv/tensor/ragged.h"

namespace qkv::python {
namespace {

nb::dlpack::dtype dlpack_type(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto type = [&](Code code) {
    return nb::dlpack::dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(8 * layout_of(dtype).bytes), 1};
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
    default:  // in blocks
      return {};
  }
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
    default:  // in blocks
      return nullptr;
  }
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
  if (in_blocks(tensor.dtype()))
    throw UsageError(concat("numpy: expected a dtype with elements, found ", name_of(tensor.dtype())));
}

// In the capsules of DLPack, and in error messages.
std::optional<DType> dtype_of_array(nb::dlpack::dtype dtype) {
  using Code = nb::dlpack::dtype_code;
  if (dtype.lanes != 1) return std::nullopt;
  if (dtype.code == static_cast<uint8_t>(Code::Bool) && dtype.bits == 8) return DType::u8;
  for (const DType one :
       {DType::f32, DType::i32, DType::u8, DType::bf16, DType::i8, DType::f16, DType::i64}) {
    if (dlpack_type(one) == dtype) return one;
  }
  return std::nullopt;
}

std::string name_of_array_dtype(nb::dlpack::dtype dtype) {
  static constexpr std::array kCodes{"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
  return concat(dtype.code < kCodes.size() ? kCodes[dtype.code] : "type", static_cast<int>(dtype.bits));
}

DType dtype_named(const std::string& name) {
  for (const DType one :
       {DType::f32, DType::i32, DType::u8, DType::bf16, DType::i8, DType::f16, DType::i64}) {
    if (name == name_of(one)) return one;
  }
  throw UsageError(concat("dtype: expected one of f32, i32, u8, bf16, i8, f16, i64, found '", name, "'"));
}

Shape shape_of(const std::vector<int64_t>& extents) { return Shape(std::span<const int64_t>(extents)); }

nb::tuple tuple_of(const Shape& shape) {
  nb::list extents;
  for (const int64_t extent : shape.extents()) extents.append(extent);
  return nb::tuple(extents);
}

// The tensor of an array's memory, which it keeps alive.
template <class Array>
Tensor over_array(const Array& array) {
  const std::optional<DType> dtype = dtype_of_array(array.dtype());
  if (!dtype) {
    throw ShapeError(
        concat("Tensor: expected an array of float32, float16, bfloat16, int32, int64, int8, uint8 or bool, "
               "found ",
               name_of_array_dtype(array.dtype()), "; see numpy's astype()"));
  }
  if (array.device_type() != nb::device::cpu::value)
    throw UsageError(
        concat("Tensor: expected an array on the CPU, found one on device ", array.device_type()));
  std::vector<int64_t> extents;
  for (size_t axis = 0; axis < array.ndim(); ++axis)
    extents.push_back(static_cast<int64_t>(array.shape(axis)));
  int64_t stride = 1;
  for (size_t axis = array.ndim(); axis-- > 0; stride *= extents[axis]) {
    if (extents[axis] > 1 && array.stride(axis) != stride)
      throw ShapeError(
          "Tensor: expected a contiguous array, found one with strides; see numpy.ascontiguousarray()");
  }
  auto kept = std::make_unique<Array>(array);
  auto* bytes = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(array.data()));
  const Storage storage(bytes, [held = kept.get()](std::byte*) {
    if (!Py_IsInitialized()) return;
    const nb::gil_scoped_acquire acquire;
    delete held;
  });
  kept.release();
  return Tensor::wrap(storage, shape_of(extents), *dtype);
}

Tensor from_array(nb::handle argument) {
  nb::ndarray<> writable;
  if (nb::try_cast(argument, writable, false)) return over_array(writable);
  nb::ndarray<nb::ro> readable;
  if (nb::try_cast(argument, readable, false)) return over_array(readable).as_read_only("a read-only array");
  throw UsageError(concat("expected a tensor or an array, found ", nb::repr(argument).c_str()));
}

template <class T>
nb::object element_of(const Tensor& tensor, int64_t index) {
  const T value = static_cast<const T*>(address_of(tensor))[index];
  if constexpr (std::is_floating_point_v<T>) {
    return nb::float_(static_cast<double>(value));
  } else {
    return nb::int_(static_cast<int64_t>(value));
  }
}

nb::object at(const Tensor& tensor, const nb::args& indices) {
  if (std::ssize(indices) != tensor.rank()) {
    throw ShapeError(
        concat("at: expected an index for each axis of ", tensor.shape(), ", found ", indices.size()));
  }
  int64_t offset = 0, stride = 1;
  for (int axis = tensor.rank() - 1; axis >= 0; --axis) {
    const int64_t extent = tensor.dim(axis);
    auto index = nb::cast<int64_t>(indices[static_cast<size_t>(axis)]);
    if (index < 0) index += extent;
    if (index < 0 || index >= extent)
      throw ShapeError(concat("at: expected an index below ", extent, " for axis ", axis, " of ",
                              tensor.shape(), ", found ",
                              nb::cast<int64_t>(indices[static_cast<size_t>(axis)])));
    offset += index * stride;
    stride = axis == tensor.rank() - 1 ? tensor.row_stride() : stride * extent;
  }
  switch (tensor.dtype()) {
    case DType::f32:
      return element_of<float>(tensor, offset);
    case DType::i32:
      return element_of<int32_t>(tensor, offset);
    case DType::i64:
      return element_of<int64_t>(tensor, offset);
    case DType::u8:
      return element_of<uint8_t>(tensor, offset);
    case DType::i8:
      return element_of<int8_t>(tensor, offset);
    default:
      throw ShapeError(concat("at: expected f32 or integers, found ", name_of(tensor.dtype())));
  }
}

nb::object dlpack_of(const nb::object& self, const char* method, const nb::kwargs& given) {
  const auto& tensor = nb::cast<const Tensor&>(self);
  require_host_tensor(tensor);
  return array_over<nb::array_api>(tensor).attr(method)(**given);
}

std::string text_of(const Tensor& tensor) { return tensor.defined() ? concat(tensor) : "undefined"; }

void bind_tensor(nb::module_& module) {
  nb::class_<Tensor>(module, "Tensor",
                     R"(A multi-dimensional array. Copies and views share memory, with numpy and DLPack too.

Tensor(values): of a numpy array or one of another framework (DLPack), without a copy, read-only if the array is; or of a
list of numbers, f32 or i32. Tensor(values, shape): likewise in another shape.

Raises ShapeError for a dtype that tensors lack, such as float64, which is never converted silently, for memory that
is not contiguous, and for another number of elements than the shape's.)")
      .def(
          "__init__",
          [](Tensor* self, const nb::object& values, const std::optional<std::vector<int64_t>>& shape) {
            Tensor tensor = tensor_of(values);
            if (shape) tensor = tensor.reshape(shape_of(*shape));
            new (self) Tensor(std::move(tensor));
          },
          nb::arg("values"), nb::arg("shape") = nb::none())
      .def_static(
          "zeros",
          [](const std::vector<int64_t>& shape, const std::string& dtype) {
            return Tensor::zeros(shape_of(shape), dtype_named(dtype));
          },
          nb::arg("shape"), nb::arg("dtype") = "f32", "A tensor of zeros.")
      .def_static(
          "empty",
          [](const std::vector<int64_t>& shape, const std::string& dtype) {
            return Tensor::empty(shape_of(shape), dtype_named(dtype));
          },
          nb::arg("shape"), nb::arg("dtype") = "f32", "A tensor whose elements are not set.")
      .def_static(
          "full",
          [](const std::vector<int64_t>& shape, float value) { return Tensor::full(shape_of(shape), value); },
          nb::arg("shape"), nb::arg("value"), "An f32 tensor of one value.")
      .def_prop_ro(
          "shape", [](const Tensor& x) { return tuple_of(x.shape()); }, "The extents, outermost first.")
      .def_prop_ro(
          "dtype", [](const Tensor& x) { return name_of(x.dtype()); }, "f32, i32, u8, bf16, i8, f16 or i64.")
      .def_prop_ro("device", [](const Tensor& x) { return name_of(x.device()); })
      .def_prop_ro("rank", &Tensor::rank)
      .def_prop_ro("numel", &Tensor::numel, "The number of elements.")
      .def_prop_ro("read_only", &Tensor::read_only)
      .def_prop_ro("contiguous", &Tensor::contiguous)
      .def("item", &Tensor::item, "The only element of an f32 tensor of one element.")
      .def("at", &at, nb::arg("indices"),
           "The element at these indices, one for each axis; negative ones count from the end.")
      .def(
          "reshape", [](Tensor& x, const std::vector<int64_t>& shape) { return x.reshape(shape_of(shape)); },
          nb::arg("shape"), "A view in another shape, of a contiguous tensor.")
      .def("slice", &Tensor::slice, nb::arg("axis"), nb::arg("begin"), nb::arg("count"),
           "A copy of a part of an axis.")
      .def(
          "slice_rows", [](Tensor& x, int64_t begin, int64_t count) { return x.slice_rows(begin, count); },
          nb::arg("begin"), nb::arg("count"), "A view of a part of the outermost axis.")
      .def(
          "columns", [](Tensor& x, int64_t begin, int64_t count) { return x.columns(begin, count); },
          nb::arg("begin"), nb::arg("count"), "A view of a part of the innermost axis.")
      .def("clone", &Tensor::clone, "A contiguous copy, which can be written.")
      .def(
          "copy_from", [](Tensor& x, const nb::object& other) { x.copy_from(tensor_of(other)); },
          nb::arg("other"), "Copies the elements of another tensor or array of the same shape and dtype.")
      .def("fill_zero", &Tensor::fill_zero)
      .def(
          "to_host", [](const Tensor& x) { return to_host(x); }, "The tensor on the host.")
      .def("shares_memory", &Tensor::shares_memory, nb::arg("other"))
      .def("numpy", &to_numpy,
           "A numpy array that shares the memory, read-only if the tensor is. Not of bf16.")
      .def("tolist", [](const Tensor& x) { return to_numpy(x).attr("tolist")(); })
      .def(
          "__array__",
          [](const Tensor& x, const nb::object& dtype, const nb::object& copy) {
            const nb::object array = to_numpy(x);
            if (!dtype.is_none() && !array.attr("dtype").equal(dtype))
              return nb::object(array.attr("astype")(dtype));
            if (!copy.is_none() && nb::cast<bool>(copy)) return nb::object(array.attr("copy")());
            return array;
          },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack__", [](const nb::object& self,
                            const nb::kwargs& given) { return dlpack_of(self, "__dlpack__", given); })
      .def("__dlpack_device__",
           [](const nb::object& self) { return dlpack_of(self, "__dlpack_device__", {}); })
      .def("__len__", [](const Tensor& x) { return x.rank() == 0 ? 0 : x.dim(0); })
      .def("__repr__", [](const Tensor& x) { return concat("<qkv.Tensor ", text_of(x), ">"); })
      .def("__str__", &text_of)
      .attr("__array_ufunc__") = nb::none();  // numpy leaves arithmetic with tensors to them
}

void bind_ragged(nb::module_& module) {
  nb::class_<Offsets>(module, "Offsets",
                      "The sequence boundaries of a ragged batch: sequence i is rows begin(i) to end(i).")
      .def(nb::init<std::vector<int32_t>>(), nb::arg("offsets"))
      .def_static(
          "of_lengths", [](const std::vector<int32_t>& lengths) { return Offsets::of_lengths(lengths); },
          nb::arg("lengths"))
      .def_static("uniform", &Offsets::uniform, nb::arg("batch"), nb::arg("length"))
      .def_prop_ro("sequences", &Offsets::sequences)
      .def_prop_ro("tokens", &Offsets::tokens)
      .def_prop_ro("max_length", &Offsets::max_length)
      .def_prop_ro("values", [](const Offsets& offsets) { return std::vector<int32_t>(offsets.values()); })
      .def("begin", &Offsets::begin, nb::arg("sequence"))
      .def("end", &Offsets::end, nb::arg("sequence"))
      .def("length", &Offsets::length, nb::arg("sequence"))
      .def("__eq__",
           [](const Offsets& a, const nb::object& b) {
             return nb::isinstance<Offsets>(b) && a == nb::cast<const Offsets&>(b);
           })
      .def("__repr__", [](const Offsets& offsets) {
        return concat("<qkv.Offsets ", nb::repr(nb::cast(offsets.values())).c_str(), ">");
      });
  nb::class_<Ragged>(
      module, "Ragged",
      R"(A ragged batch: a tensor [tokens, ...] and the boundaries of its sequences, without padding.

Ragged([[5, 6], [7]]): sequences of token ids. Ragged(values, offsets): of a tensor.)")
      .def(
          "__init__",
          [](Ragged* self, const nb::object& values, const std::optional<Offsets>& offsets) {
            if (offsets) {
              new (self) Ragged{tensor_of(values), *offsets};
            } else {
              new (self) Ragged(Ragged::from(nb::cast<std::vector<std::vector<int32_t>>>(values)));
            }
          },
          nb::arg("values"), nb::arg("offsets") = nb::none())
      .def_rw("values", &Ragged::values)
      .def_rw("offsets", &Ragged::offsets);
}

}  // namespace

Tensor tensor_of(nb::handle argument) {
  if (argument.is_none()) return {};
  if (nb::isinstance<Tensor>(argument)) return nb::cast<const Tensor&>(argument);
  if (nb::isinstance<Variable>(argument)) return nb::cast<const Variable&>(argument).value();
  if (nb::isinstance<nb::list>(argument) || nb::isinstance<nb::tuple>(argument)) {
    const nb::object numpy = nb::module_::import_("numpy");
    const nb::object array = numpy.attr("asarray")(argument);
    const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
    if (kind == "f") return from_array(array.attr("astype")("float32"));
    if (kind == "i") {
      const nb::object narrow = array.attr("astype")("int32"),
                       same = numpy.attr("array_equal")(narrow, array);
      if (PyObject_IsTrue(same.ptr()) == 1) return from_array(narrow);
    }
    return from_array(array);
  }
  return from_array(argument);
}

bool is_operand(nb::handle argument) {
  return nb::isinstance<Variable>(argument) || nb::isinstance<Tensor>(argument) ||
         nb::hasattr(argument, "__dlpack__") || nb::isinstance<nb::list>(argument);
}

Variable variable_of(nb::handle argument) {
  if (nb::isinstance<Variable>(argument)) return nb::cast<const Variable&>(argument);
  const Tensor tensor = tensor_of(argument);
  return tensor.defined() ? Variable(tensor) : Variable();
}

nb::object to_numpy(const Tensor& tensor) {
  require_host_tensor(tensor);
  if (tensor.dtype() == DType::bf16) throw UsageError("numpy: expected a dtype that numpy has, found bf16");
  return array_over<nb::numpy>(tensor);
}

void bind_tensors(nb::module_& module) {
  bind_tensor(module);
  bind_ragged(module);
}

}  // namespace qkv::python
