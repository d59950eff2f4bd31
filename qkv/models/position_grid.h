#pragma once
// Learned positions of a grid of patches, for a grid of another size.

#include "qkv/models/image_processor.h"
#include "qkv/tensor/tensor.h"

namespace qkv::models {

// positions f32 [own + from.height * from.width, features], row by row of the grid behind `own` rows that
// are not of it -> [own + to.height * to.width, features]. The grid is interpolated with cubic convolution
// (Keys 1981, with a = -3/4; edges repeated), whose corners are the corners of the outermost cells: PyTorch's
// interpolate(mode="bicubic", align_corners=False), and transformers' interpolate_pos_encoding. Own rows stay
// as they are.
Tensor interpolate_positions(const Tensor& positions, int64_t own, ImageSize from, ImageSize to);

}  // namespace qkv::models
