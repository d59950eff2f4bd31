#pragma once
// Weight dtype conversions. All tensors must be on one device.

#include "qkv/kernels/weight_rows.h"
#include "qkv/tensor/quantized_tensor.h"

namespace qkv::kernels {

// Arguments for the device's kernels: f32, bf16, f16 or i8, rows of any stride.
WeightRows weight_rows(const QuantizedTensor& weight);

// Rounds to the nearest bf16, ties to even. NaN stays NaN; values beyond the largest bf16 become infinite.
// f32 to bf16, contiguous.
void round_to_bf16(const Tensor& from, Tensor& to);
// Likewise to f16, whose largest number is 65504.
void round_to_f16(const Tensor& from, Tensor& to);

// Quantises each row symmetrically: scale = max |w| / 127, value = round(w / scale). f32 [rows, cols] to i8
// [rows, cols] and f32 [rows], contiguous. The values must be finite.
void quantize_rows(const Tensor& from, Tensor& to, Tensor& scales);

// Converts all elements to f32, contiguous [rows, cols].
void widen_rows(const QuantizedTensor& from, Tensor& to);

}  // namespace qkv::kernels
