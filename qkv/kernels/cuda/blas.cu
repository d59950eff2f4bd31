// The products of products.h by cuBLASLt; on the host, by a loop.

#include "qkv/kernels/cuda/products.h"

#ifdef __CUDACC__
#include <cublasLt.h>
#include <dlfcn.h>
#endif

#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "qkv/base/error.h"
#include "qkv/kernels/cuda/elements.h"
#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/kernels.h"
#include "qkv/kernels/cuda/memory.h"

namespace qkv::kernels::cuda {
namespace {

// Element i of all results in their order.
QKV_DEVICE int64_t index_of_c(const Gemm& g, int64_t i) {
  return i / (g.m * g.n) * g.c_batch_stride + i / g.n % g.m * g.c_stride + i % g.n;
}
QKV_DEVICE Accumulate accumulate_of(const Gemm& g) { return g.accumulate ? Accumulate::yes : Accumulate::no; }

#ifdef __CUDACC__

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

// What an algorithm is chosen for: the numbers of rows of a batch and of a sum over rows are rounded to
// classes, so that the order of sums does not follow from them.
using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool, bool, bool, DType, DType,
                       int64_t, std::array<uint32_t, 3>>;

int64_t rows_of_class(int64_t m) { return m <= kManyRows ? kManyRows : 32 * kManyRows; }

// The bytes, up to 16, at whose multiples all rows begin: columns of a wider matrix may be an operand. It is
// the same for any of the rows of a matrix.
uint32_t alignment_of(const void* data, DType dtype, int64_t stride) {
  const uint64_t bits = reinterpret_cast<uintptr_t>(data) | bytes_of(dtype, stride) | 16;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

cudaDataType_t type_of(DType dtype) { return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

// Of one GPU.
struct Blas {
  Library library = open_library();
  Array<std::byte> workspace{static_cast<int64_t>(kWorkspace)};
  std::map<Key, cublasLtMatmulAlgo_t> algorithms;
};

struct Description {
  const Library& library;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;

  // cuBLAS's matrices have columns: c^T = b^T a^T, where each of ours is stored as its transpose.
  Description(const Library& all, const Gemm& g, int64_t m, int64_t k) : library(all) {
    require(library.describe(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "description");
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      require(library.set(product, attribute, &value, sizeof(value)), "description");
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, g.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, g.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (g.bias != nullptr) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.bias.data);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(g.bias.dtype));
    }
    const auto layout = [&](cudaDataType_t type, int64_t rows, int64_t cols, int64_t stride,
                            int64_t between) {
      cublasLtMatrixLayout_t to = nullptr;
      require(library.layout(&to, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), stride),
              "layout");
      const auto count = static_cast<int32_t>(g.batch);
      require(library.set_layout(to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)), "batch");
      require(library.set_layout(to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &between, sizeof(between)),
              "batch");
      return to;
    };
    const cudaDataType_t type = type_of(g.operands);
    b = layout(type, g.b.transposed ? k : g.n, g.b.transposed ? g.n : k, g.b.stride, g.b.batch_stride);
    a = layout(type, g.a.transposed ? m : k, g.a.transposed ? k : m, g.a.stride, g.a.batch_stride);
    c = layout(type_of(g.c.dtype), g.n, m, g.c_stride, g.c_batch_stride);
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  ~Description() {
    library.destroy(product);
    for (const cublasLtMatrixLayout_t layout : {a, b, c}) library.destroy_layout(layout);
  }

  // Sums are not split over blocks: the result would depend on the split.
  cublasLtMatmulAlgo_t algorithm(const std::array<uint32_t, 3>& alignments) const {
    cublasLtMatmulPreference_t preference = nullptr;
    require(library.preference(&preference), "preference");
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      require(library.set_preference(preference, attribute, &value, sizeof(value)), "preference");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
    const auto [of_a, of_b, of_c] = alignments;
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, of_b);  // cuBLAS's A is our b
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, of_a);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_c);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_c);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    require(library.heuristic(library.handle, product, b, a, c, c, preference, 1, &found, &count),
            "algorithm");
    library.destroy_preference(preference);
    if (count == 0) throw Error("device cuda: cuBLASLt: expected an algorithm, found none");
    return found.algo;
  }
};

void multiply(const Gemm& g) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static std::array<Blas*, kMostGpus> blas{};  // never destroyed, as the driver may end before them
  Blas*& of_gpu = blas.at(static_cast<size_t>(selected_gpu()));
  if (of_gpu == nullptr) of_gpu = new Blas;
  auto& [library, workspace, algorithms] = *of_gpu;

  // A sum over rows of a batch (a gradient of a weight) may have any length.
  const int64_t m = g.a.transposed ? g.m : rows_of_class(g.m);
  const int64_t k = g.a.transposed ? rows_of_class(g.k) : g.k;
  const std::array alignments{alignment_of(g.a.data, g.operands, g.a.stride),
                              alignment_of(g.b.data, g.operands, g.b.stride),
                              alignment_of(g.c.data, g.c.dtype, g.c_stride)};
  const Key key{m,
                g.n,
                k,
                g.a.stride,
                g.b.stride,
                g.c_stride,
                g.a.transposed,
                g.b.transposed,
                g.bias != nullptr,
                g.operands,
                g.c.dtype,
                g.batch,
                alignments};
  auto found = algorithms.find(key);
  if (found == algorithms.end())
    found = algorithms.emplace(key, Description(library, g, m, k).algorithm(alignments)).first;
  const Description d(library, g, g.m, g.k);
  const float one = 1, before = g.accumulate ? 1 : 0;
  require(library.matmul(library.handle, d.product, &one, g.b.data, d.b, g.a.data, d.a, &before, g.c.data,
                         d.c, g.c.data, d.c, &found->second, workspace.data(), kWorkspace,
                         static_cast<cudaStream_t>(stream())),
          "product");
}

#else

void multiply(const Gemm& g) {
  const auto number = [&](const Operand& from, int64_t i) { return get({from.data, g.operands}, i); };
  for (int64_t i = 0; i < g.batch * g.m * g.n; ++i) {
    const int64_t row = i / g.n % g.m, col = i % g.n, matrix = i / (g.m * g.n);
    const int64_t x = matrix * g.a.batch_stride, y = matrix * g.b.batch_stride;
    double sum = g.bias == nullptr ? 0 : static_cast<double>(get(g.bias, col));
    for (int64_t l = 0; l < g.k; ++l) {
      sum += static_cast<double>(
                 number(g.a, x + (g.a.transposed ? l * g.a.stride + row : row * g.a.stride + l))) *
             number(g.b, y + (g.b.transposed ? col * g.b.stride + l : l * g.b.stride + col));
    }
    put(g.c, index_of_c(g, i), static_cast<float>(sum), accumulate_of(g));
  }
}

#endif

// Sums of no products, which cuBLASLt does not take.
void put_empty_sums(const Gemm& g) {
  for_each(g.batch * g.m * g.n, [=] QKV_DEVICE(int64_t i) {
    put(g.c, index_of_c(g, i), g.bias == nullptr ? 0.0f : get(g.bias, i % g.n), accumulate_of(g));
  });
}

}  // namespace

Gemm Unrounded::product() const {
  Gemm product = rounded_;
  product.c = sums_.data();
  product.c_stride = rounded_.n;
  product.c_batch_stride = rounded_.m * rounded_.n;
  product.accumulate = false;
  return product;
}

void Unrounded::store() const {
  const Gemm g = rounded_;
  const float* const sums = sums_.data();
  for_each(g.batch * g.m * g.n,
           [=] QKV_DEVICE(int64_t i) { put(g.c, index_of_c(g, i), sums[i], accumulate_of(g)); });
}

void gemm(const Gemm& g) {
  if (g.m == 0 || g.n == 0 || g.batch == 0) return;
  if (g.k == 0) return put_empty_sums(g);
  if (g.c.dtype == DType::f32) return multiply(g);
  // cuBLASLt has no products of f32 with a result in bf16, and for those of bf16 takes a bias in bf16 only.
  if (g.operands == DType::f32) {
    const Unrounded sums(g);
    multiply(sums.product());
    return sums.store();
  }
  if (g.bias == nullptr) return multiply(g);
  Gemm product = g;
  const Array<BFloat16> bias(g.n);
  round_to_bf16(g.bias.f32(), bias.data(), g.n);
  product.bias = bias.data();
  multiply(product);
}

}  // namespace qkv::kernels::cuda
