#pragma once

namespace qkv::kernels {

enum class NormKind {
  layer,  // y = (z - mean(z)) / sqrt(var(z) + epsilon) * weight + bias (Ba et al. 2016)
  rms,    // y = z / sqrt(mean(z^2) + epsilon) * weight (Zhang and Sennrich 2019)
};

}  // namespace qkv::kernels
