#pragma once

#include <cstdint>

namespace qkv::kernels {

// Whether a kernel writes its result or adds it to what is there. Gradients of values that are used more than
// once are written by the first use and added to by the rest.
enum class Accumulate : bool { no, yes };

// How often each number of the result is touched: written, or read and written.
constexpr int64_t touches(Accumulate accumulate) { return accumulate == Accumulate::yes ? 2 : 1; }

}  // namespace qkv::kernels
