#pragma once

#include <cstdint>

namespace qkv::kernels {

// Whether a kernel overwrites its result or adds to it. The first use of a value writes its gradient, the
// others add.
enum class Accumulate : bool { no, yes };

// Passes over the memory of the result: one to write, two to read and write.
constexpr int64_t memory_passes(Accumulate accumulate) { return accumulate == Accumulate::yes ? 2 : 1; }

}  // namespace qkv::kernels
