#include "qkv/ops/quantize.h"

#include <algorithm>

#include "qkv/kernels/pointwise.h"
#include "qkv/kernels/weights.h"

namespace qkv {
namespace {

void require_scales(const char* operation, const Tensor& values, const Tensor& scales) {
  if (scales.defined() && scales.dtype() == DType::f32 && scales.contiguous() &&
      scales.numel() == values.dim(0))
    return;
  throw ShapeError(concat(operation, ": expected f32 scales [", values.dim(0), "] of an i8 weight ",
                          values.shape(), ", found ",
                          scales.defined() ? concat(name_of(scales.dtype()), " ", scales.shape()) : "none"));
}

void require_weight_dtype(const char* operation, DType dtype) {
  if (is_weight_dtype(dtype)) return;
  throw ShapeError(concat(operation, ": expected weights of f32, bf16, f16 or i8, found ", name_of(dtype)));
}

// Longer sums of products of 8-bit integers would overflow 32 bits.
void require_int8_width(const char* operation, const Tensor& values) {
  if (values.cols() <= kernels::kMaxInt8Cols) return;
  throw ShapeError(concat(operation, ": int8 weights: expected at most ", kernels::kMaxInt8Cols,
                          " inputs, found ", values.shape()));
}

}  // namespace

void require_weight(const char* operation, const Tensor& values, const Tensor& scales) {
  if (!values.defined()) throw ShapeError(concat(operation, ": expected a weight with values, found none"));
  if (values.rank() != 2) {
    throw ShapeError(concat(operation, ": expected a weight matrix, found shape ", values.shape()));
  }
  require_weight_dtype(operation, values.dtype());
  if (values.dtype() != DType::i8) return;
  require_scales(operation, values, scales);
  require_int8_width(operation, values);
}

QuantizedTensor to_dtype(const QuantizedTensor& weight, DType dtype) {
  weight_dtype_name(dtype);
  if (weight.defined() && weight.dtype() == dtype) return weight;
  if (!weight.defined()) throw ShapeError("to_dtype: expected a weight with values, found none");
  require_weight_dtype("to_dtype", weight.dtype());
  const MemoryScope memory(MemoryUse::weights);
  const Tensor values = weight.values.contiguous() ? weight.values : weight.values.clone();
  if (values.dtype() != DType::f32) {
    const bool int8 = values.dtype() == DType::i8;
    if (int8) require_scales("to_dtype", values, weight.scales);
    Tensor wide = Tensor::empty(values.shape(), DType::f32, values.device());
    kernels::widen_rows({values, weight.scales}, wide);
    return to_dtype({wide}, dtype);
  }
  if (in_blocks(dtype)) throw ShapeError(concat("to_dtype: weights are not converted to ", name_of(dtype)));
  Tensor narrow = Tensor::empty(values.shape(), dtype, values.device());
  if (dtype != DType::i8) {
    dtype == DType::bf16 ? kernels::round_to_bf16(values, narrow) : kernels::round_to_f16(values, narrow);
    return {narrow};
  }
  require_int8_width("to_dtype", values);
  if (!kernels::all_finite(values))
    throw NumericError(
        concat("int8 weights ", values.shape(), ": expected finite numbers, found NaN or infinity"));
  Tensor scales = Tensor::empty({values.rows()}, DType::f32, values.device());
  kernels::quantize_rows(values, narrow, scales);
  return {narrow, scales};
}

Tensor dequantize(const QuantizedTensor& weight) { return to_dtype(weight, DType::f32).values; }

const char* weight_dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::i8:
      return "int8";
    default:
      if (in_blocks(dtype)) return name_of(dtype);
      throw ShapeError(concat("weights: expected f32, bf16, f16 or i8, found ", name_of(dtype)));
  }
}

std::vector<std::string> weight_dtype_names() {
  std::vector<std::string> names;
  for (const DType dtype : kWeightDTypes) names.emplace_back(weight_dtype_name(dtype));
  return names;
}

DType weight_dtype_from_name(std::string_view name) {
  for (const DType dtype : kWeightDTypes) {
    if (name == weight_dtype_name(dtype)) return dtype;
  }
  throw UsageError(concat("dtype: expected f32, bf16, f16 or int8, found \"", name, "\""));
}

}  // namespace qkv
