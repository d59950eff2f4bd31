#pragma once
// Versions of the libraries that the kernels use.

#include <string>

namespace qkv::kernels {

// As "2.6.3": the version of the linked oneDNN and of Highway's headers.
std::string onednn_version();
std::string highway_version();

}  // namespace qkv::kernels
