#pragma once
// Kinds of activations, norms, alignments and results, named by layers and by kernels.

#include <cstdint>

namespace qkv::kernels {

// The activation functions of feed-forward blocks; relu_squared: max(x, 0)^2 (So et al. 2021);
// quick_gelu: x / (1 + exp(-1.702 x)) (Hendrycks and Gimpel 2016).
enum class Activation { identity, relu, gelu_exact, gelu_tanh, silu, tanh, relu_squared, quick_gelu };

enum class NormKind {
  layer,  // y = (z - mean(z)) / sqrt(var(z) + epsilon) * weight + bias (Ba et al. 2016)
  rms,    // y = z / sqrt(mean(z^2) + epsilon) * weight (Zhang and Sennrich 2019)
};

// Which query and key of a sequence share a position if their numbers differ: the last ones, as with a KV
// cache (query i has position i + keys - queries), or the first ones (query i has position i).
enum class Alignment : bool { last_key, first_key };

// Whether a kernel overwrites its result or adds to it. The first use of a value writes its gradient, the
// others add.
enum class Accumulate : bool { no, yes };

// Passes over the memory of the result: one to write, two to read and write.
constexpr int64_t memory_passes(Accumulate accumulate) { return accumulate == Accumulate::yes ? 2 : 1; }

}  // namespace qkv::kernels
