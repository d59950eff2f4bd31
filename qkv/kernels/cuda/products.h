#pragma once
// Products of matrices on the device.

#include <cstdint>

#include "qkv/kernels/backend/elements.h"
#include "qkv/kernels/cuda/memory.h"
#include "qkv/kernels/weight_rows.h"
#include "qkv/tensor/dtype.h"

namespace qkv::kernels::cuda {

// A row-major matrix as stored; `transposed`: the product reads its transpose.
struct Operand {
  const void* data = nullptr;
  int64_t stride = 0;
  bool transposed = false;
  int64_t batch_stride = 0;
};

// c [m, n] (+)= a [m, k] b [k, n] + bias [n], for each of a batch; sums in f32, rounded once for c of bf16.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  Operand a, b;
  DType operands = DType::f32;  // f32 or bf16
  Elements bias = {};           // null: none
  MutableElements c = {};
  int64_t c_stride = 0;
  bool accumulate = false;
  int64_t batch = 1, c_batch_stride = 0;
};

// By cuBLASLt, which is loaded when it is first needed. The order of sums is the same for all m up to
// kManyRows, and for all above.
void gemm(const Gemm& product);
inline constexpr int64_t kManyRows = 128;

// The same products with c in f32, from which store() then makes a c of bf16: for sums of several products.
class Unrounded {
 public:
  explicit Unrounded(const Gemm& rounded) : rounded_(rounded), sums_(rounded.batch * rounded.m * rounded.n) {}
  Gemm product() const;
  void store() const;

 private:
  Gemm rounded_;
  Array<float> sums_;
};

// c [rows, w.rows] (+)= x w^T + bias for at most kFewRows rows x [rows, w.cols], which read the weights once,
// as they are stored. The order of sums does not depend on the number of rows. x may be bf16 for weights of
// f32, bf16 and f16 only.
void multiply_few_rows(int64_t rows, const Elements& x, int64_t x_stride, const WeightRows& w,
                       const float* bias, const MutableElements& c, int64_t c_stride, bool accumulate);
inline constexpr int64_t kFewRows = 8;

// Row r of c [rows, weights' rows]: row r / repeats of x times weights[chosen[r] * step], with the bias
// biases[chosen[r]] + first, if not null. All weights have this layout. The table and its arrays are on the
// device.
struct ChosenRows {
  int64_t rows = 0, repeats = 1;
  Elements x = {};
  int64_t x_stride = 0;
  WeightRows layout = {};
  bool aligned = false;  // rows_are_aligned(), for all weights
  const WeightRows* weights = nullptr;
  int64_t step = 1;
  const float* const* biases = nullptr;
  int64_t first = 0;
  const int32_t* chosen = nullptr;
  MutableElements c = {};
  int64_t c_stride = 0;
};
void multiply_chosen_rows(const ChosenRows& rows);

}  // namespace qkv::kernels::cuda
