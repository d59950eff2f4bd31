#pragma once
// Weights in another dtype. The weights of affine maps and tables of embeddings may be f32, bf16 or i8; all
// other parameters and everything that is computed are f32. Only f32 weights can be trained.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/tensor/quantized_tensor.h"

namespace qkv {

// bf16 takes half the memory of f32, and is widened to f32 in each product. i8 takes a quarter: integers with
// one scale a row, multiplied by inputs that are rounded to 8 bits as they come.
inline constexpr std::array<DType, 3> kWeightDTypes{DType::f32, DType::bf16, DType::i8};

// The weight in `dtype`: rounded to the nearest value, or widened. A weight of that dtype is returned as it
// is, without a copy. Throws ShapeError for a dtype that no weight has, for i8 values without their scales,
// and where i8 rows would be longer than 65,536; NumericError where a value that becomes i8 is not finite.
QuantizedTensor to_dtype(const QuantizedTensor& weight, DType dtype);
// The values in f32: to_dtype(weight, DType::f32).
Tensor dequantize(const QuantizedTensor& weight);

// Throws ShapeError naming `operation` unless the weight is a matrix of f32, bf16 or i8, the latter with
// scales [rows].
void require_weight(const char* operation, const Tensor& values, const Tensor& scales);

// A weight's dtype by name: "f32", "bf16", "int8".
std::vector<std::string> weight_dtype_names();
const char* weight_dtype_name(DType dtype);           // throws ShapeError for a dtype that no weight has
DType weight_dtype_from_name(std::string_view name);  // throws UsageError with the known names

}  // namespace qkv
