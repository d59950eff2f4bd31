#pragma once

#include <cstdint>

namespace qkv::kernels {

// Whether a kernel writes its result or adds it to what is there. Gradients of values that are used more than
// once are written by the first use and added to by the rest.
enum class Accumulate : bool { no, yes };

// Passes over the memory of the result: one to write it, two to read and write it.
constexpr int64_t memory_passes(Accumulate accumulate) { return accumulate == Accumulate::yes ? 2 : 1; }

}  // namespace qkv::kernels
