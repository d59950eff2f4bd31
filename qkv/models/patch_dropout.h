#pragma once
// PatchDropout (Liu et al. 2023, "PatchDropout: Economizing Vision Transformers Using Patch Dropout"): in
// training, each image keeps a random sample of its patches, the same number for all.

#include <cstdint>
#include <vector>

#include "qkv/kernels/dropout.h"

namespace qkv::models {

// The number of patches that an image keeps: at least 1.
int64_t kept_count(int64_t patches, float rate);

// Indices of the patches that each image keeps, [images * kept_count]: for image i `patches` * i + a sample
// without replacement of 0 to patches - 1, in ascending order. The sample is a pure function of the dropout's
// seed, step and site, and of first_row + i.
std::vector<int32_t> kept_patches(int64_t images, int64_t patches, const kernels::Dropout& dropout);

}  // namespace qkv::models
