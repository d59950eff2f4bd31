// Products with packed weights, and weight gradients: in slabs by oneDNN, or in strips by our own kernel,
// whichever this processor has.

#include "qkv/kernels/cpu/matmul.h"

#include <algorithm>

#include "qkv/kernels/cpu/products/f32_matrix.h"
#include "qkv/kernels/cpu/products/onednn.h"
#include "qkv/kernels/cpu/products/packed_matrix.h"
#include "qkv/kernels/cpu/products/slabs.h"
#include "qkv/kernels/cpu/products/strips.h"

namespace qkv::kernels {
namespace {

// c (+)= bias: the product of an empty inner dimension.
void add_nothing(const float* bias, const MutableF32Matrix& c, Accumulate accumulate) {
  for (int64_t row = 0; row < c.rows; ++row) {
    float* const to = c.data + row * c.stride;
    if (accumulate == Accumulate::no) std::fill_n(to, c.cols, 0.0f);
    for (int64_t col = 0; bias != nullptr && col < c.cols; ++col) to[col] += bias[col];
  }
}

}  // namespace

void cpu::matmul(const Matrix& a, const cpu::PackedMatrix& b, const float* bias, const MutableMatrix& c,
                 Accumulate accumulate) {
  const cpu::PackedMatrix::Impl& packed = *b.impl();
  if (packed.rows == 0) return add_nothing(bias, f32(c), accumulate);
  const auto multiply = packed.layout == PackLayout::strips ? multiply_strips : multiply_slabs;
  multiply(f32(a), packed, bias, f32(c), accumulate);
}

void cpu::matmul_transposed_a(const Matrix& a, const Matrix& b, const MutableMatrix& c, Accumulate accumulate,
                              DType operands) {
  if (a.rows == 0) return add_nothing(nullptr, f32(c), accumulate);
  const auto multiply =
      onednn::runs_on_slabs() ? multiply_transposed_with_slabs : multiply_transposed_in_strips;
  multiply(f32(a), f32(b), f32(c), accumulate, operands);
}

bool cpu::has_fast_bf16() { return onednn::runs_on_bf16_slabs(); }

}  // namespace qkv::kernels
