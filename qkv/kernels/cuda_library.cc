// Finds the CUDA backend, in a library that is opened when a program first asks for the device.

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/kernels/cuda/library.h"

namespace qkv::kernels {
namespace {

const CudaLibrary& open_library() {
  std::vector<std::filesystem::path> paths;
  if (const char* given = std::getenv("QKV_CUDA_LIBRARY")) {
    paths.emplace_back(given);
  } else {
    std::error_code none;
    const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
    paths = {folder / "libqkv_cuda.so", folder.parent_path() / "lib/qkv/libqkv_cuda.so"};
  }
  std::string reasons;
  for (const std::filesystem::path& path : paths) {
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      reasons += concat(reasons.empty() ? "" : "; ", ::dlerror());
      continue;
    }
    const auto get = reinterpret_cast<const CudaLibrary* (*)()>(::dlsym(library, kCudaLibrarySymbol));
    if (get != nullptr && get()->table_bytes == sizeof(Backend)) return *get();
    throw UsageError(
        concat("device cuda: ", path.string(), ": expected the library of this build, found another"));
  }
  throw UsageError(
      concat("device cuda: expected qkv's library for CUDA (scripts/build cuda), found none: ", reasons));
}

}  // namespace

const Backend& cuda_backend(int index) {
  static const CudaLibrary& library = open_library();
  if (const char* const problem = library.select(index))
    throw UsageError(concat("device ", name_of(cuda_device(index)), ": ", problem));
  return *library.table;
}

}  // namespace qkv::kernels
