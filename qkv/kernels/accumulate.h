#pragma once

namespace qkv::kernels {

// Whether a kernel writes its result or adds it to what is there. Gradients of values that are used more than
// once are written by the first use and added to by the rest.
enum class Accumulate : bool { no, yes };

}  // namespace qkv::kernels
