#pragma once
// Positions of the patches of an image: sinusoids, and learned ones for a grid of another size.

#include "qkv/models/image_processor.h"
#include "qkv/tensor/tensor.h"

namespace qkv::models {

// positions f32 [own + from.height * from.width, features], `own` special tokens followed by the grid row by
// row -> [own + to.height * to.width, features]. Cubic convolution (Keys 1981, with a = -3/4; edges
// repeated), with corners aligned at the outer cells' corners: PyTorch's interpolate(mode="bicubic",
// align_corners=False), and transformers' interpolate_pos_encoding. The own rows are copied.
Tensor interpolate_positions(const Tensor& positions, int64_t own, ImageSize from, ImageSize to);

// Sines and cosines of the columns, then of the rows, of the grid row by row, each over a quarter of the
// features: f32 [height * width, features]. Quarter feature i has the frequency 100^(-i / (features / 4)):
// the longest wavelength is that of 628 patches, and most features differ between neighbours, which the base
// 10,000 of texts would leave alike. Features beyond a multiple of four are 0. The mean square of the others
// is 1/2. Throws UsageError if an argument is below 1.
Tensor sinusoidal_grid(ImageSize grid, int64_t features);

}  // namespace qkv::models
