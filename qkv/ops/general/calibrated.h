#pragma once
// Rounding of weights that takes their inputs into account (Frantar et al. 2023, "GPTQ: Accurate
// Post-Training Quantization for Generative Pre-trained Transformers").

#include "qkv/tensor/quantized_tensor.h"

namespace qkv {

// An f32 weight [n, k] in blocks of `dtype`, whose products with the inputs X [tokens, k] change little:
// `gram` is X^T X, f32 [k, k]. Columns are rounded one after the other; the error of each is made up for by
// those that are still to come, as far as the inputs are correlated. The scales of a block are those that fit
// its numbers best when its first column is reached. The diagonal is raised by `damping` times its mean.
//
// The bits do not depend on the number of threads. Throws ShapeError unless the shapes match and k is a
// multiple of the block, and NumericError for numbers that are not finite.
QuantizedTensor quantize_calibrated(const Tensor& weight, const Tensor& gram, DType dtype,
                                    double damping = 0.01);

}  // namespace qkv
