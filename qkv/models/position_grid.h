#pragma once
// Interpolates learned positions to a patch grid of another size.

#include "qkv/models/image_processor.h"
#include "qkv/tensor/tensor.h"

namespace qkv::models {

// positions f32 [own + from.height * from.width, features], `own` special tokens followed by the grid row by
// row -> [own + to.height * to.width, features]. Cubic convolution (Keys 1981, with a = -3/4; edges
// repeated), with corners aligned at the outer cells' corners: PyTorch's interpolate(mode="bicubic",
// align_corners=False), and transformers' interpolate_pos_encoding. The own rows are copied.
Tensor interpolate_positions(const Tensor& positions, int64_t own, ImageSize from, ImageSize to);

}  // namespace qkv::models
