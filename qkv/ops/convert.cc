#include "qkv/ops/convert.h"

#include "qkv/kernels/pointwise.h"
#include "qkv/kernels/weights.h"

namespace qkv {
namespace {

void require_floats(const char* name, const Tensor& x) {
  if (!x.defined()) throw ShapeError(concat(name, ": expected values, found an undefined tensor"));
  if (x.dtype() == DType::f32 || x.dtype() == DType::bf16) return;
  throw ShapeError(concat(name, ": expected f32 or bf16, found ", name_of(x.dtype()), " ", x.shape()));
}

// Calls convert(from, to) on contiguous ranges.
template <class Convert>
Variable converted(const char* name, const Variable& x, DType dtype, const Convert& convert) {
  const Tensor& value = x.value();
  Tensor y = Tensor::empty(value.shape(), dtype, value.device());
  convert(value.contiguous() ? value : value.clone(), y);
  if (!Tape::records({x})) return y;
  return Tape::record(name, y, {{x, false}}, [x](const Tensor& dy) {
    GradientSlot slot = x.gradient_slot();
    kernels::copy(dy, slot.tensor, slot.accumulate);  // converts
  });
}

}  // namespace

Variable to_f32(const Variable& x) {
  constexpr const char* kName = "to_f32";
  require_floats(kName, x.value());
  if (x.value().dtype() == DType::f32) return x;
  return converted(kName, x, DType::f32, [](const Tensor& from, Tensor& to) {
    kernels::widen_rows({from.reshape({from.rows(), from.cols()})}, to);
  });
}

Variable to_bf16(const Variable& x) {
  constexpr const char* kName = "to_bf16";
  require_floats(kName, x.value());
  if (x.value().dtype() == DType::bf16) return x;
  return converted(kName, x, DType::bf16, kernels::round_to_bf16);
}

Variable in_dtype(const Variable& x, DType dtype) { return dtype == DType::bf16 ? to_bf16(x) : to_f32(x); }

}  // namespace qkv
