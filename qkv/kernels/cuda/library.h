#pragma once
// The interface between the program and libqkv_cuda.so, which it opens for --device cuda: neither the program
// nor the library qkv links CUDA.

#include "qkv/kernels/backend.h"

namespace qkv::kernels {

inline constexpr const char* kCudaLibrarySymbol = "qkv_cuda_library";

struct CudaLibrary {
  size_t table_bytes = sizeof(Backend);  // of this build
  // Makes a GPU the one that this thread's calls of the table use. Null if it can be used, else what was
  // expected and what was found.
  const char* (*select)(int index) = nullptr;
  const Backend* table = nullptr;
};

}  // namespace qkv::kernels
