#pragma once

namespace qkv::kernels {

// Which query and key of a sequence share a position if their numbers differ: the last ones, as with a KV
// cache (query i has position i + keys - queries), or the first ones (query i has position i).
enum class Alignment : bool { last_key, first_key };

}  // namespace qkv::kernels
