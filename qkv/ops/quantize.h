#pragma once
// Weight dtypes. Weights of linear maps and embedding tables may be f32, bf16, f16, i8 or in blocks; all
// other parameters and all computation are f32. Only f32 weights can be trained.

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/tensor/quantized_tensor.h"

namespace qkv {

// bf16 and f16 take half the memory of f32 and are widened to f32 within each product, exactly. i8 takes a
// quarter: integers with one scale per row, multiplied by inputs that are rounded to 8 bits on the fly.
inline constexpr std::array kWeightDTypes{DType::f32, DType::bf16, DType::f16, DType::i8};
// Weights in blocks (ggml's formats) are read from files, widened to f32 within each product, and never made
// here.
inline bool is_weight_dtype(DType dtype) {
  return in_blocks(dtype) || std::ranges::find(kWeightDTypes, dtype) != kWeightDTypes.end();
}

// Converts a weight, rounding to nearest. A weight that has the dtype already is returned without a copy.
// Throws ShapeError for a dtype that is not a weight dtype, for i8 values without scales, and for i8 rows
// longer than 65,536; NumericError for a non-finite value that would become i8.
QuantizedTensor to_dtype(const QuantizedTensor& weight, DType dtype);
// to_dtype(weight, DType::f32).
Tensor dequantize(const QuantizedTensor& weight);

// Throws ShapeError naming `operation` unless the weight is a matrix of f32, bf16, f16, blocks, or i8 with
// scales [rows].
void require_weight(const char* operation, const Tensor& values, const Tensor& scales);

// Weight dtypes by name: "f32", "bf16", "f16", "int8"; blocks have names, but are not listed.
std::vector<std::string> weight_dtype_names();
const char* weight_dtype_name(DType dtype);           // throws ShapeError for other dtypes
DType weight_dtype_from_name(std::string_view name);  // throws UsageError listing the known names

}  // namespace qkv
