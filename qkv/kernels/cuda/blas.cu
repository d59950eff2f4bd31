#include "qkv/kernels/cuda/products.h"

#ifdef __CUDACC__
#include <cublasLt.h>
#include <dlfcn.h>
#endif

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/memory.h"

namespace qkv::kernels::cuda {

#ifdef __CUDACC__

namespace {

// The functions of libcublasLt, which is half a gigabyte: it is neither linked nor shipped.
struct Library {
  decltype(&::cublasLtCreate) create = nullptr;
  decltype(&::cublasLtMatmul) matmul = nullptr;
  decltype(&::cublasLtMatmulDescCreate) describe = nullptr;
  decltype(&::cublasLtMatmulDescSetAttribute) set = nullptr;
  decltype(&::cublasLtMatrixLayoutCreate) layout = nullptr;
  decltype(&::cublasLtMatrixLayoutSetAttribute) set_layout = nullptr;
  decltype(&::cublasLtMatmulPreferenceCreate) preference = nullptr;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&::cublasLtMatmulDescDestroy) destroy = nullptr;
  decltype(&::cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&::cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  cublasLtHandle_t handle = nullptr;
};

void require(cublasStatus_t status, const char* step) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(
        concat("device cuda: cuBLASLt: ", step, ": expected status 0, found ", static_cast<int>(status)));
}

Library open_library() {
  const char* const given = std::getenv("QKV_CUBLASLT");
  const std::string name = given != nullptr ? given : "libcublasLt.so.13";
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw UsageError(
        concat("device cuda: expected cuBLASLt of CUDA 13 (PyPI's nvidia-cublas, or QKV_CUBLASLT=FILE), "
               "found none: ",
               ::dlerror()));
  Library all;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
    if (function == nullptr)
      throw UsageError(concat("device cuda: ", name, ": expected the function ", symbol, ", found none"));
  };
  find(all.create, "cublasLtCreate");
  find(all.matmul, "cublasLtMatmul");
  find(all.describe, "cublasLtMatmulDescCreate");
  find(all.set, "cublasLtMatmulDescSetAttribute");
  find(all.layout, "cublasLtMatrixLayoutCreate");
  find(all.set_layout, "cublasLtMatrixLayoutSetAttribute");
  find(all.preference, "cublasLtMatmulPreferenceCreate");
  find(all.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  find(all.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(all.destroy, "cublasLtMatmulDescDestroy");
  find(all.destroy_layout, "cublasLtMatrixLayoutDestroy");
  find(all.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  require(all.create(&all.handle), "create");
  return all;
}

constexpr size_t kWorkspace = size_t{32} << 20;

struct Described {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

// cuBLAS's matrices have columns: c^T = b^T a^T, where each of ours is stored as its transpose.
using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool, bool, int64_t, int64_t,
                       int64_t, int64_t>;

}  // namespace

void gemm(int64_t m, int64_t n, int64_t k, const Operand& a, const Operand& b, float* c, int64_t c_stride,
          bool accumulate, int64_t batch, int64_t c_batch_stride) {
  if (m == 0 || n == 0 || batch == 0) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static const Library library = open_library();
  static const Array<std::byte> workspace(static_cast<int64_t>(kWorkspace));
  static std::map<Key, Described> described;

  // Ragged batches have ever other numbers of rows.
  constexpr size_t kMaxDescribed = 4096;
  if (described.size() == kMaxDescribed) {
    for (const auto& [key, one] : described) {
      library.destroy(one.product);
      for (const cublasLtMatrixLayout_t layout : {one.a, one.b, one.c}) library.destroy_layout(layout);
    }
    described.clear();
  }
  Described& d = described[Key{m, n, k, a.stride, b.stride, c_stride, a.transposed, b.transposed, batch,
                               a.batch_stride, b.batch_stride, c_batch_stride}];
  if (d.product == nullptr) {
    require(library.describe(&d.product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "description");
    const cublasOperation_t first = b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                            second = a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    require(library.set(d.product, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof(first)), "transposition");
    require(library.set(d.product, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof(second)), "transposition");
    const auto layout = [&](cublasLtMatrixLayout_t& to, int64_t rows, int64_t cols, int64_t stride,
                            int64_t between) {
      require(
          library.layout(&to, CUDA_R_32F, static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), stride),
          "layout");
      const auto count = static_cast<int32_t>(batch);
      require(library.set_layout(to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)), "batch");
      require(library.set_layout(to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &between, sizeof(between)),
              "batch");
    };
    layout(d.b, b.transposed ? k : n, b.transposed ? n : k, b.stride, b.batch_stride);
    layout(d.a, a.transposed ? m : k, a.transposed ? k : m, a.stride, a.batch_stride);
    layout(d.c, n, m, c_stride, c_batch_stride);
    cublasLtMatmulPreference_t preference = nullptr;
    require(library.preference(&preference), "preference");
    require(library.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                                   sizeof(kWorkspace)),
            "preference");
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    require(library.heuristic(library.handle, d.product, d.b, d.a, d.c, d.c, preference, 1, &found, &count),
            "algorithm");
    library.destroy_preference(preference);
    if (count == 0)
      throw Error(concat("device cuda: cuBLASLt: no algorithm for [", m, ", ", k, "] [", k, ", ", n, "]"));
    d.algorithm = found.algo;
  }
  const float one = 1, before = accumulate ? 1 : 0;
  require(library.matmul(library.handle, d.product, &one, b.data, d.b, a.data, d.a, &before, c, d.c, c, d.c,
                         &d.algorithm, workspace.data(), kWorkspace, static_cast<cudaStream_t>(stream())),
          "product");
}

#else

void gemm(int64_t m, int64_t n, int64_t k, const Operand& a, const Operand& b, float* c, int64_t c_stride,
          bool accumulate, int64_t batch, int64_t c_batch_stride) {
  for (int64_t i = 0; i < batch * m * n; ++i) {
    const int64_t row = i / n % m, col = i % n, matrix = i / (m * n);
    const float *const x = a.data + matrix * a.batch_stride, *const y = b.data + matrix * b.batch_stride;
    double sum = 0;
    for (int64_t l = 0; l < k; ++l) {
      sum += static_cast<double>(x[a.transposed ? l * a.stride + row : row * a.stride + l]) *
             y[b.transposed ? col * b.stride + l : l * b.stride + col];
    }
    put(c[matrix * c_batch_stride + row * c_stride + col], static_cast<float>(sum),
        accumulate ? Accumulate::yes : Accumulate::no);
  }
}

#endif

}  // namespace qkv::kernels::cuda
