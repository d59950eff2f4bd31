#pragma once

namespace qkv::kernels {

// Which query and key of a sequence are at the same position, where there are more of one than of the other:
// the last ones, as a KV cache needs (query i is at position i + keys - queries), or the first ones (query i
// is at position i).
enum class Alignment : bool { last_key, first_key };

}  // namespace qkv::kernels
