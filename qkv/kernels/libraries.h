#pragma once
// The libraries that the kernels use.

#include <string>

namespace qkv::kernels {

// Versions as "2.6.3": of the oneDNN that is linked, and of Highway's headers.
std::string onednn_version();
std::string highway_version();

}  // namespace qkv::kernels
