#pragma once
// Weights from one dtype to another. All tensors lie on one device.

#include "qkv/kernels/weight_rows.h"
#include "qkv/tensor/quantized_tensor.h"

namespace qkv::kernels {

// As the kernels of the device have it: f32, bf16 or i8, rows of any stride.
WeightRows weight_rows(const QuantizedTensor& weight);

// The nearest bf16 of each element, ties to even. NaN stays NaN, and values beyond the largest bf16 become
// infinite. f32 to bf16, contiguous.
void round_to_bf16(const Tensor& from, Tensor& to);

// Each row by itself, symmetrically: scale = max |w| / 127, value = round(w / scale). f32 [rows, cols] to i8
// [rows, cols] and f32 [rows], contiguous. The values must be finite.
void quantize_rows(const Tensor& from, Tensor& to, Tensor& scales);

// All elements as f32, to [rows, cols] without gaps.
void widen_rows(const QuantizedTensor& from, Tensor& to);

}  // namespace qkv::kernels
